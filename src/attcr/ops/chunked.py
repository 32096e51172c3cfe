"""Triangular attention in linear time and memory, in plain PyTorch, with its own backward.

A head's tokens are cut into chunks of CHUNK and the chunks into blocks. Inside a chunk the masked product is
done by its definition; what lies before the chunk enters through its state, the sum of phi(k)^T v. States are
summed over the chunks of a block by one product with a triangle of ones and carried from block to block, so no
more than one block of states exists at a time. Blocks are small enough for the processor's cache: the feature
map, masks and divisions never travel to memory.

The backward walks the blocks in the opposite direction and recomputes all but the output, the normaliser and
the state each block began with (d*d numbers per block of tokens).
"""

# B batch, h heads (of one direction), N tokens, d head dim, G = B*h, M chunks in a block, c = CHUNK

from dataclasses import dataclass

import torch
from torch import Tensor

from attcr.ops.naive import EPS

CHUNK = 32
BLOCK = 64 * CHUNK


@dataclass(frozen=True)
class Carry:
    """What a direction knows of the tokens it has passed: sums of phi(k)^T v and of phi(k)."""

    kv: Tensor  # G, d, d
    k: Tensor  # G, d

    @staticmethod
    def zeros(like: Tensor) -> "Carry":
        """Nothing passed yet, for tokens `like` of shape (B, h, N, d)."""
        batch, heads, _, dim = like.shape
        wide = _wide(like)
        return Carry(like.new_zeros(batch * heads, dim, dim, dtype=wide), like.new_zeros(batch * heads, dim, dtype=wide))


def _wide(x: Tensor) -> torch.dtype:
    """States and normaliser are kept in float32, or in float64 for float64 inputs."""
    return torch.promote_types(x.dtype, torch.float32)


def _blocks(n: int, reverse: bool) -> list[tuple[int, int, int]]:
    """(index, start, stop) of the blocks of n tokens in scan order."""
    spans = [(i, start, min(start + BLOCK, n)) for i, start in enumerate(range(0, n, BLOCK))]
    return spans[::-1] if reverse else spans


def _take(x: Tensor, start: int, stop: int) -> Tensor:
    """Tokens start..stop of (B, h, N, d) as (G, M, c, d), wide, the last chunk filled with zeros."""
    batch, heads, _, dim = x.shape
    chunks = -(-(stop - start) // CHUNK)
    out = x.new_empty(batch, heads, chunks * CHUNK, dim, dtype=_wide(x))
    out[:, :, : stop - start].copy_(x[:, :, start:stop])
    out[:, :, stop - start :].zero_()
    return out.view(batch * heads, chunks, CHUNK, dim)


def _put(out: Tensor, start: int, stop: int, block: Tensor) -> None:
    """Write (G, M, c, d) back as tokens start..stop of (B, h, N, d)."""
    batch, heads, _, dim = out.shape
    out[:, :, start:stop].copy_(block.view(batch, heads, -1, dim)[:, :, : stop - start])


def _phi(x: Tensor, tokens: int) -> Tensor:
    """ELU(x) + 1 in place, as max(x, 0) + exp(min(x, 0)); what lies past `tokens` becomes 0."""
    positive = x.clamp(min=0)
    x.clamp_(max=0).exp_().add_(positive)
    x.flatten(1, 2)[:, tokens:].zero_()
    return x


def _sum_before(x: Tensor, carry: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """For (G, M, ...): per chunk the carry plus all chunks scanned before it; and the carry after the block."""
    groups, chunks = x.shape[:2]
    ones = x.new_ones(chunks, chunks)
    before = (ones.triu(1) if reverse else ones.tril(-1)).expand(groups, -1, -1)
    sums = torch.baddbmm(carry.flatten(1).unsqueeze(1), before, x.flatten(2)).view_as(x)
    last = 0 if reverse else -1
    return sums, sums[:, last] + x[:, last]


def _bmm(a: Tensor, b: Tensor) -> Tensor:
    """Product of (G, M, i, j) and (G, M, j, k)."""
    return torch.bmm(a.flatten(0, 1), b.flatten(0, 1)).unflatten(0, a.shape[:2])


def _add_bmm(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add the product of (G, M, i, j) and (G, M, j, k) to `total`, in place."""
    total.flatten(0, 1).baddbmm_(a.flatten(0, 1), b.flatten(0, 1))
    return total


def _triangle(like: Tensor, reverse: bool) -> Tensor:
    ones = like.new_ones(CHUNK, CHUNK)
    return ones.triu() if reverse else ones.tril()


def scan(q: Tensor, k: Tensor, v: Tensor, *, reverse: bool, carry: Carry) -> tuple[Tensor, Carry]:
    """One direction over (B, h, N, d), starting from `carry`: the output, and the carry after the last token.

    Scanning one part of the tokens and then the next with the carry of the first gives what one scan of both
    gives, so a sequence may be cut anywhere.
    """
    out = _empty_tokens(q)
    return out, _scan_into(out, None, None, (q, k, v), reverse, carry)


def _empty_tokens(like: Tensor) -> Tensor:
    """Uninitialised (B, h, N, d) that lies in memory as (B, N, h, d), the order of channels-last images."""
    batch, heads, n, dim = like.shape
    return like.new_empty(batch, n, heads, dim).transpose(1, 2)


def _scan_into(
    out: Tensor,
    z_out: Tensor | None,
    starts: Carry | None,
    qkv: tuple[Tensor, Tensor, Tensor],
    reverse: bool,
    carry: Carry,
) -> Carry:
    """Fill `out`, the normaliser (B, h, N, 1) and the carry each block began with, kept for the backward."""
    q, k, v = qkv
    triangle = _triangle(carry.k, reverse)
    for i, start, stop in _blocks(q.shape[2], reverse):
        tokens = stop - start
        phi_q, phi_k = _phi(_take(q, start, stop), tokens), _phi(_take(k, start, stop), tokens)
        values = _take(v, start, stop)
        if starts is not None:
            starts.kv[:, i], starts.k[:, i] = carry.kv, carry.k
        kv_before, kv_after = _sum_before(_bmm(phi_k.mT, values), carry.kv, reverse)  # G, M, d, d
        k_before, k_after = _sum_before(phi_k.sum(2), carry.k, reverse)  # G, M, d
        carry = Carry(kv_after, k_after)

        weights = _bmm(phi_q, phi_k.mT).mul_(triangle)  # G, M, c, c
        z = _bmm(phi_q, k_before.unsqueeze(-1)).add_(weights.sum(-1, keepdim=True)).add_(EPS)  # G, M, c, 1
        result = _add_bmm(_bmm(weights, values), phi_q, kv_before)
        _put(out, start, stop, result.div_(z))
        if z_out is not None:
            _put(z_out, start, stop, z)
    return carry


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The heads that scan forward and those that scan backward, of (B, heads, ...)."""
    half = x.shape[1] // 2
    return x[:, :half], x[:, half:]


@torch.library.custom_op("attcr::triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give the output, and for the backward the normaliser and the states each block began with."""
    out, z, kv_starts, k_starts = _empty_results(q)
    for side, reverse in enumerate((False, True)):
        qkv = (_halves(q)[side], _halves(k)[side], _halves(v)[side])
        starts = Carry(kv_starts[side].flatten(0, 1), k_starts[side].flatten(0, 1))
        _scan_into(_halves(out)[side], _halves(z)[side], starts, qkv, reverse, Carry.zeros(qkv[0]))
    return out, z, kv_starts, k_starts


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor | None = None, v: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, heads, n, dim = q.shape
    count, wide = (n + BLOCK - 1) // BLOCK, _wide(q)
    return (
        _empty_tokens(q),
        q.new_empty(batch, heads, n, 1, dtype=wide),
        q.new_empty(2, batch, heads // 2, count, dim, dim, dtype=wide),
        q.new_empty(2, batch, heads // 2, count, dim, dtype=wide),
    )


@torch.library.custom_op("attcr::triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor, kv_starts: Tensor, k_starts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    grads = _empty_grads(grad, q, k, v)
    for side, reverse in enumerate((False, True)):
        inputs = [_halves(x)[side] for x in (grad, q, k, v, out, z)]
        starts = Carry(kv_starts[side].flatten(0, 1), k_starts[side].flatten(0, 1))
        _scan_back([_halves(x)[side] for x in grads], inputs, starts, reverse)
    return grads


@_attend_backward.register_fake
def _empty_grads(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *saved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_tokens(q), _empty_tokens(k), _empty_tokens(v)


def _scan_back(grads: list[Tensor], inputs: list[Tensor], starts: Carry, reverse: bool) -> None:
    """Fill the gradients to q, k and v of one direction.

    With n_i the numerator and z_i the normaliser of token i, out_i = n_i / z_i. So dn = grad / z, dz = -dn . out,
    dphi_q_i = sum_j phi_k_j (v_j . dn_i + dz_i), dphi_k_j = sum_i phi_q_i (v_j . dn_i + dz_i) and
    dv_j = sum_i (phi_q_i . phi_k_j) dn_i, with j before or at i in scan order.
    """
    grad, q, k, v, out, z = inputs
    grad_q, grad_k, grad_v = grads
    triangle = _triangle(starts.k, reverse)
    after = Carry.zeros(q)  # sums of phi_q^T dn and phi_q^T dz over the tokens after this block
    for i, start, stop in _blocks(q.shape[2], not reverse):
        tokens = stop - start
        phi_q, phi_k = _phi(_take(q, start, stop), tokens), _phi(_take(k, start, stop), tokens)
        values = _take(v, start, stop)
        normaliser = _take(z, start, stop)
        normaliser.flatten(1, 2)[:, tokens:].fill_(1)
        dn = _take(grad, start, stop).div_(normaliser)  # G, M, c, d
        dz = _take(out, start, stop).mul_(dn).sum(-1, keepdim=True).neg_()  # G, M, c, 1

        kv_before, _ = _sum_before(_bmm(phi_k.mT, values), starts.kv[:, i], reverse)
        k_before, _ = _sum_before(phi_k.sum(2), starts.k[:, i], reverse)
        qn_after, qn_carry = _sum_before(_bmm(phi_q.mT, dn), after.kv, not reverse)
        qz_after, qz_carry = _sum_before(_bmm(phi_q.mT, dz).squeeze(-1), after.k, not reverse)
        after = Carry(qn_carry, qz_carry)

        weights = _bmm(phi_q, phi_k.mT).mul_(triangle)  # G, M, c, c
        dweights = _bmm(dn, values.mT).add_(dz).mul_(triangle)
        dv = _add_bmm(_bmm(weights.mT, dn), phi_k, qn_after)
        dphi_q = _add_bmm(_bmm(dweights, phi_k), dn, kv_before.mT).addcmul_(dz, k_before.unsqueeze(2))
        dphi_k = _add_bmm(_bmm(dweights.mT, phi_q), values, qn_after.mT).add_(qz_after.unsqueeze(2))
        # ELU(x) + 1 has the slope 1 above 0 and its own value below: min(phi, 1).
        _put(grad_q, start, stop, dphi_q.mul_(phi_q.clamp_(max=1)))
        _put(grad_k, start, stop, dphi_k.mul_(phi_k.clamp_(max=1)))
        _put(grad_v, start, stop, dv)


def _save(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _attend_backward(grad, *ctx.saved_tensors)  # type: ignore[attr-defined, no-any-return]


_attend.register_autograd(_backward, setup_context=_save)


def chunked_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, on any device; shapes as `triangular_attention`."""
    return _attend(q, k, v)[0]
