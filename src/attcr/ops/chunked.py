"""Triangular attention in linear time and memory, in plain PyTorch, with its own backward.

The tokens are cut into chunks of CHUNK and the chunks into blocks. Inside a chunk the masked product is done by
its definition; what lies before the chunk enters through its state, the sum of phi(k)^T v. The states of a block
are summed by one product with a triangle of ones and carried from block to block, so no more than one block of
states exists at a time. A block fits into the processor's cache: the feature map, masks and divisions never
travel to memory.

Both directions go side by side, one from the first block on, the other from the last: each step handles a block
of the heads that look back and the mirror block of those that look ahead.

The backward walks the steps from the last to the first and recomputes all but the output, the normaliser and the
state that each step began with (d*d numbers per block of tokens).
"""

# B batch, h heads, N tokens, d head dim, M chunks in a block, c = CHUNK

from dataclasses import dataclass

import torch
from torch import Tensor

from attcr.ops.naive import EPS

CHUNK = 64
BLOCK = 8192
"""Tokens in a block, counted over all heads."""


@dataclass(frozen=True)
class Carry:
    """What the heads know of the tokens they have passed: sums of phi(k)^T v and of phi(k)."""

    kv: Tensor  # B, h, d, d
    k: Tensor  # B, h, d

    @staticmethod
    def zeros(like: Tensor) -> "Carry":
        """Nothing passed yet, for tokens `like` of shape (B, h, N, d)."""
        batch, heads, _, dim = like.shape
        wide = _wide(like)
        return Carry(
            like.new_zeros(batch, heads, dim, dim, dtype=wide), like.new_zeros(batch, heads, dim, dtype=wide)
        )


def _wide(x: Tensor) -> torch.dtype:
    """States and normaliser are kept in float32, or in float64 for float64 inputs."""
    return torch.promote_types(x.dtype, torch.float32)


def _empty_tokens(like: Tensor) -> Tensor:
    """Uninitialised (B, h, N, d) that lies in memory as (B, N, h, d), the order of channels-last images."""
    batch, heads, n, dim = like.shape
    return like.new_empty(batch, n, heads, dim).transpose(1, 2)


def _largest_block(heads: int) -> int:
    """Tokens of one head in a block: whole chunks."""
    return max(BLOCK // heads // CHUNK, 1) * CHUNK


class _Steps:
    """The walk over the blocks of one item's tokens: where each step reads and writes, and its masks.

    Blocks are alike in size: the last is filled up with zeros, which no token sees.
    """

    def __init__(self, like: Tensor) -> None:
        _, self.heads, self.tokens, _ = like.shape
        self.half = self.heads // 2
        self.chunks = min(_largest_block(self.heads) // CHUNK, -(-self.tokens // CHUNK))
        self.block = self.chunks * CHUNK
        self.count = -(-self.tokens // self.block)
        ones = like.new_ones(CHUNK, CHUNK, dtype=_wide(like))
        self._triangles = torch.stack([ones.tril(), ones.triu()]).unsqueeze(1)
        ones = like.new_ones(self.chunks, self.chunks, dtype=_wide(like))
        self._before = torch.stack([ones.tril(-1), ones.triu(1)]).repeat_interleave(self.half, 0)  # h, M, M
        self._after = self._before.mT

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """Room for a step's (h, M, *shape), wide."""
        return like.new_empty(self.heads, self.chunks, *shape, dtype=_wide(like))

    def _spans(self, step: int) -> tuple[tuple[slice, int, int], tuple[slice, int, int]]:
        """(heads, first token, tokens) of the step's block in either direction."""
        first, last = step * self.block, (self.count - 1 - step) * self.block
        return (
            (slice(0, self.half), first, min(self.block, self.tokens - first)),
            (slice(self.half, self.heads), last, min(self.block, self.tokens - last)),
        )

    def take(self, x: Tensor, step: int, out: Tensor) -> Tensor:
        """Copy the step's tokens of (h, N, w) to `out` of (h, M, c, w); past the end, zeros."""
        room = out.flatten(1, 2)
        for heads, start, size in self._spans(step):
            room[heads, :size].copy_(x[heads, start : start + size])
            if size < self.block:
                room[heads, size:].zero_()
        return out

    def put(self, block: Tensor, step: int, x: Tensor) -> None:
        """Copy the step's (h, M, c, w) to its tokens of (h, N, w)."""
        room = block.flatten(1, 2)
        for heads, start, size in self._spans(step):
            x[heads, start : start + size].copy_(room[heads, :size])

    def phi(self, x: Tensor, step: int, spare: Tensor) -> Tensor:
        """ELU(x) + 1 in place, as max(x, 0) + exp(min(x, 0)); past the end, 0."""
        torch.clamp(x, min=0, out=spare)
        x.clamp_(max=0).exp_().add_(spare)
        for heads, _, size in self._spans(step):
            if size < self.block:
                x.flatten(1, 2)[heads, size:].zero_()
        return x

    def mask(self, weights: Tensor) -> Tensor:
        """Keep of (h, M, c, c), in place, what a token may see."""
        weights.view(2, -1, CHUNK, CHUNK).mul_(self._triangles)
        return weights

    def sum_before(self, x: Tensor, carry: Tensor, out: Tensor) -> Tensor:
        """Give each chunk of (h, M, ...) the carry plus all chunks scanned before it; return the next carry."""
        return self._sum(self._before, x, carry, out, (-1, 0))

    def sum_after(self, x: Tensor, carry: Tensor, out: Tensor) -> Tensor:
        """Do as `sum_before` in the direction of the backward."""
        return self._sum(self._after, x, carry, out, (0, -1))

    def _sum(self, triangle: Tensor, x: Tensor, carry: Tensor, out: Tensor, last: tuple[int, int]) -> Tensor:
        torch.baddbmm(carry.flatten(1).unsqueeze(1), triangle, x.flatten(2), out=out.flatten(2))
        ends = [part[heads, at] for part in (out, x) for (heads, _, _), at in zip(self._spans(0), last, strict=True)]
        return torch.cat(ends[:2]).add_(torch.cat(ends[2:]))


def _bmm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Product of (G, M, i, j) and (G, M, j, k)."""
    torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out=out.flatten(0, 1))
    return out


def _add_bmm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Add the product of (G, M, i, j) and (G, M, j, k) to `out`."""
    out.flatten(0, 1).baddbmm_(a.flatten(0, 1), b.flatten(0, 1))
    return out


def scan(q: Tensor, k: Tensor, v: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    """Attend within a stretch of a longer sequence; give the output and the carry with this stretch added.

    `carry` holds, for the heads that look back, what lies before the stretch, and for those that look ahead,
    what lies after it. A sequence may so be cut anywhere.
    """
    out, z, kv_starts, k_starts = _empty_results(q, k, v)
    return out, _scan_into((q, k, v), carry, (out, z), Carry(kv_starts, k_starts))


def _scan_into(
    inputs: tuple[Tensor, Tensor, Tensor], carry: Carry, results: tuple[Tensor, Tensor], starts: Carry
) -> Carry:
    """Fill the output and the normaliser (B, h, N, 1), and the carry (B, steps, ...) that each step began with."""
    like, dim = inputs[0], inputs[0].shape[3]
    steps = _Steps(like)
    phi_q, phi_k, values, result = (steps.empty(like, CHUNK, dim) for _ in range(4))
    kv, kv_before, weights = steps.empty(like, dim, dim), steps.empty(like, dim, dim), steps.empty(like, CHUNK, CHUNK)
    k_before, z = steps.empty(like, dim), steps.empty(like, CHUNK, 1)
    end = Carry.zeros(like)
    for item, (q, k, v) in enumerate(zip(*inputs, strict=True)):
        kv_carry, k_carry = carry.kv[item], carry.k[item]
        for step in range(steps.count):
            starts.kv[item, step].copy_(kv_carry)
            starts.k[item, step].copy_(k_carry)
            steps.phi(steps.take(q, step, phi_q), step, result)
            steps.phi(steps.take(k, step, phi_k), step, result)
            steps.take(v, step, values)
            kv_carry = steps.sum_before(_bmm(phi_k.mT, values, kv), kv_carry, kv_before)
            k_carry = steps.sum_before(phi_k.sum(2), k_carry, k_before)
            steps.mask(_bmm(phi_q, phi_k.mT, weights))
            _bmm(phi_q, k_before.unsqueeze(-1), z).add_(weights.sum(-1, keepdim=True)).add_(EPS)
            _add_bmm(phi_q, kv_before, _bmm(weights, values, result)).div_(z)
            steps.put(result, step, results[0][item])
            steps.put(z, step, results[1][item])
        end.kv[item].copy_(kv_carry)
        end.k[item].copy_(k_carry)
    return end


@torch.library.custom_op("attcr::triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give the output, and for the backward the normaliser and the states that each step began with."""
    out, z, kv_starts, k_starts = _empty_results(q, k, v)
    _scan_into((q, k, v), Carry.zeros(q), (out, z), Carry(kv_starts, k_starts))
    return out, z, kv_starts, k_starts


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, heads, n, dim = q.shape
    wide, block = _wide(q), _largest_block(heads)
    count = (n + block - 1) // block
    return (
        _empty_tokens(v),
        q.new_empty(batch, heads, n, 1, dtype=wide),
        q.new_empty(batch, count, heads, dim, dim, dtype=wide),
        q.new_empty(batch, count, heads, dim, dtype=wide),
    )


@torch.library.custom_op("attcr::triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor, kv_starts: Tensor, k_starts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients to q, k and v.

    With n_i the numerator and z_i the normaliser of token i, out_i = n_i / z_i. So dn = grad / z, dz = -dn . out,
    dphi_q_i = sum_j phi_k_j (v_j . dn_i + dz_i), dphi_k_j = sum_i phi_q_i (v_j . dn_i + dz_i) and
    dv_j = sum_i (phi_q_i . phi_k_j) dn_i, where token i sees token j.
    """
    grads = _empty_grads(grad, q, k, v, out, z, kv_starts, k_starts)
    steps, dim = _Steps(q), q.shape[3]
    phi_q, phi_k, values, dn, spare = (steps.empty(q, CHUNK, dim) for _ in range(5))
    normaliser, dz = steps.empty(q, CHUNK, 1), steps.empty(q, CHUNK, 1)
    products, kv_before, qn_after = (steps.empty(q, dim, dim) for _ in range(3))
    k_before, qz_after = steps.empty(q, dim), steps.empty(q, dim)
    weights = steps.empty(q, CHUNK, CHUNK)
    zeros = Carry.zeros(q)
    for item in range(q.shape[0]):
        qn_carry, qz_carry = zeros.kv[item], zeros.k[item]  # over the tokens that see this block
        for step in reversed(range(steps.count)):
            steps.phi(steps.take(q[item], step, phi_q), step, spare)
            steps.phi(steps.take(k[item], step, phi_k), step, spare)
            steps.take(v[item], step, values)
            steps.take(z[item], step, normaliser).clamp_(min=EPS)  # zeros past the end; no real one is below
            steps.take(grad[item], step, dn).div_(normaliser)
            torch.sum(steps.take(out[item], step, spare).mul_(dn), -1, keepdim=True, out=dz).neg_()

            steps.sum_before(_bmm(phi_k.mT, values, products), kv_starts[item, step], kv_before)
            steps.sum_before(phi_k.sum(2), k_starts[item, step], k_before)
            qn_carry = steps.sum_after(_bmm(phi_q.mT, dn, products), qn_carry, qn_after)
            qz_carry = steps.sum_after(torch.mul(phi_q, dz, out=spare).sum(2), qz_carry, qz_after)

            steps.mask(_bmm(phi_q, phi_k.mT, weights))
            steps.put(_add_bmm(phi_k, qn_after, _bmm(weights.mT, dn, spare)), step, grads[2][item])
            steps.mask(_bmm(dn, values.mT, weights).add_(dz))
            # ELU(x) + 1 has the slope 1 above 0 and its own value below: min(phi, 1).
            _add_bmm(dn, kv_before.mT, _bmm(weights, phi_k, spare)).addcmul_(dz, k_before.unsqueeze(2))
            _add_bmm(values, qn_after.mT, _bmm(weights.mT, phi_q, dn)).add_(qz_after.unsqueeze(2))
            steps.put(spare.mul_(phi_q.clamp_(max=1)), step, grads[0][item])
            steps.put(dn.mul_(phi_k.clamp_(max=1)), step, grads[1][item])
    return grads


@_attend_backward.register_fake
def _empty_grads(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor, kv_starts: Tensor, k_starts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_tokens(q), _empty_tokens(k), _empty_tokens(v)


def _save(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _attend_backward(grad, *ctx.saved_tensors)  # type: ignore[attr-defined, no-any-return]


_attend.register_autograd(_backward, setup_context=_save)


def chunked_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, on any device; shapes as `triangular_attention`."""
    out: Tensor = _attend(q, k, v)[0]
    return out
