"""Triangular attention in linear time and memory, in plain PyTorch, with its own backward.

Read plain.py first: it makes the same sum without blocks, steps and rooms.

The tokens are cut into chunks of CHUNK tokens, and the chunks are grouped into blocks. Inside a chunk the masked
product is computed by its definition. What lies before the chunk enters through its state, the sum of phi(k)^T v.
One product with a triangle of ones sums the states of a block, and the sum is carried from block to block, so that
only one block of states exists at a time. A block fits into the processor's cache: the feature map, the masks and
the divisions need no trip to memory. The normaliser is one more column of v, of ones, so each product gives both.

Both directions are computed side by side, one from the first block on, the other from the last one. Each step
handles one block for the heads that look back and the mirrored block for the heads that look ahead. A step takes as
many items of the batch as it needs to be worth its calls.

The backward pass walks the steps from the last to the first. It recomputes everything except the output, the
normaliser and the state that each step began with (about d*d numbers per block of tokens).
"""

# B batch, I items handled at once, h heads, N tokens, d head dim, w > d width of v with its column of ones,
# G = I*h lanes, those that look back first, M chunks in a block, c = CHUNK

import math
import threading
from typing import Any

import torch
from torch import Tensor

from attcr.ops.naive import EPS

CHUNK = 64
BLOCK = 64 * CHUNK
"""Tokens of one head in a block, at most."""
STEP = 2**20
"""About how many numbers of q a step takes; items of the batch are taken together until there are so many."""


def _wide(x: Tensor) -> torch.dtype:
    """States and normaliser are kept in float32, or in float64 for float64 inputs."""
    return torch.promote_types(x.dtype, torch.float32)


def _width(dim: int) -> int:
    """Columns of v with its ones, filled up to a multiple of 8, which matrix products do fastest."""
    return dim // 8 * 8 + 8


def empty_tokens(like: Tensor) -> Tensor:
    """Uninitialised (B, h, N, d) that lies in memory as (B, N, h, d), the order of channels-last images."""
    batch, heads, n, dim = like.shape
    return like.new_empty(batch, n, heads, dim).transpose(1, 2)


def dense(x: Tensor) -> Tensor:
    """The same, with the numbers of a token side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


def empty_grads(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialised gradients to q, k and v, for the arguments of a backward."""
    return empty_tokens(q), empty_tokens(k), empty_tokens(v)


def set_backward(attend: Any, attend_backward: Any, *, kept: slice = slice(None)) -> None:
    """Let autograd call the backward of an operator: on the gradient, the inputs, and what is `kept` of the outputs."""

    def save(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs, *output[kept])

    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:
        return attend_backward(grad, *ctx.saved_tensors)

    attend_backward.register_fake(empty_grads)
    attend.register_autograd(backward, setup_context=save)


_kept = threading.local()


def _rooms(like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Uninitialised wide tensors. On the CPU they are cut from a buffer that the thread keeps from call to call.

    The system hands out fresh memory page by page as it is first touched, which takes longer than the step itself.
    Other devices have an allocator that keeps memory.
    """
    sizes = [math.prod(shape) for shape in shapes]
    buffer: Tensor | None = getattr(_kept, "buffer", None)
    if buffer is None or like.device.type != "cpu" or buffer.dtype != _wide(like) or buffer.numel() < sum(sizes):
        with torch.inference_mode(False):  # a buffer made in inference mode could not be used outside it
            buffer = torch.empty(sum(sizes), dtype=_wide(like), device=like.device)
        if like.device.type == "cpu":
            _kept.buffer = buffer
    return [part.view(shape) for part, shape in zip(buffer[: sum(sizes)].split(sizes), shapes, strict=True)]


Sides = tuple[Tensor, Tensor]
"""A view for the heads that look back and one for those that look ahead."""


class _Steps:
    """The walk over the blocks of a batch: which views each step reads and writes, and its masks.

    All blocks have one size: the last is filled up with zeros, which no token sees. The views are made once for all
    steps, since making them costs as much as many of the products here.
    """

    def __init__(self, like: Tensor) -> None:
        batch, heads, tokens, dim = like.shape
        self.half = heads // 2
        self.chunks = min(BLOCK // CHUNK, -(-tokens // CHUNK))
        self.block = self.chunks * CHUNK
        self.count = -(-tokens // self.block)
        self.rest = tokens - (self.count - 1) * self.block
        """Tokens of the last block."""
        most = max(STEP // (heads * self.block * dim), 1)
        self.items = max(n for n in range(1, batch + 1) if batch % n == 0 and n <= most)
        self.groups = [slice(i, i + self.items) for i in range(0, batch, self.items)]
        self.lanes = self.items * heads
        ones = like.new_ones(CHUNK, CHUNK, dtype=_wide(like))
        self._triangles = torch.stack([ones.tril(), ones.triu()]).unsqueeze(1)
        ones = like.new_ones(self.chunks, self.chunks, dtype=_wide(like))
        self._before = torch.stack([ones.tril(-1), ones.triu(1)]).repeat_interleave(self.lanes // 2, 0)  # G, M, M
        self._after = self._before.mT

    def blocks(self, x: Tensor) -> list[Sides]:
        """For each step its tokens of (I, h, N, j)."""
        back, ahead = x[:, : self.half], x[:, self.half :]
        return list(zip(back.split(self.block, 2), reversed(ahead.split(self.block, 2)), strict=True))

    def sides(self, x: Tensor) -> Sides:
        """Split (G, ...) by direction into two of (I, h/2, ...)."""
        back, ahead = x.unflatten(0, (2, self.items, self.half))
        return back, ahead

    def rooms(self, room: Tensor) -> list[Sides]:
        """For each step the part of a room (G, M, c, j) that its tokens fill."""
        back, ahead = self.sides(room.flatten(1, 2))
        steps = [(back, ahead)] * self.count
        steps[-1] = (back[:, :, : self.rest], steps[-1][1])
        steps[0] = (steps[0][0], ahead[:, :, : self.rest])
        return steps

    def tails(self, *rooms: Tensor) -> list[list[Tensor]]:
        """For each step the parts of rooms (G, M, c, j) past the last token."""
        steps: list[list[Tensor]] = [[] for _ in range(self.count)]
        if self.rest < self.block:
            for room in rooms:
                back, ahead = self.sides(room.flatten(1, 2))
                steps[-1].append(back[:, :, self.rest :])
                steps[0].append(ahead[:, :, self.rest :])
        return steps

    def mask(self, weights: Tensor) -> None:
        """Set to 0, in place, what a token of (G, M, c, c) may not see."""
        weights.view(2, -1, CHUNK, CHUNK).mul_(self._triangles)

    def sum_before(self, x: Tensor, carry: Tensor, out: Tensor) -> None:
        """Give each chunk of (G, M, d, w) the carry plus all chunks scanned before it."""
        torch.baddbmm(carry.flatten(1).unsqueeze(1), self._before, x.flatten(2), out=out.flatten(2))

    def sum_after(self, x: Tensor, carry: Tensor, out: Tensor) -> None:
        """Do what `sum_before` does, in the direction of the backward pass."""
        torch.baddbmm(carry.flatten(1).unsqueeze(1), self._after, x.flatten(2), out=out.flatten(2))

    def step_on(self, x: Tensor, sums: Tensor, carry: Tensor, ends: tuple[int, int]) -> None:
        """Fill the carry after the block: the sum before its last chunk in scan order, plus that chunk."""
        half = self.lanes // 2
        torch.add(sums[:half, ends[0]], x[:half, ends[0]], out=carry[:half])
        torch.add(sums[half:, ends[1]], x[half:, ends[1]], out=carry[half:])


def _take(blocks: Sides, rooms: Sides) -> None:
    """Copy a step's tokens into its rooms."""
    rooms[0].copy_(blocks[0])
    rooms[1].copy_(blocks[1])


def _take_phi(blocks: Sides, rooms: Sides, positive: Sides) -> None:
    """Copy min(x, 0) of a step's tokens into its rooms, and max(x, 0) into others: phi is exp of one plus the other."""
    for block, room, rest in zip(blocks, rooms, positive, strict=True):
        source = block.to(room.dtype)
        torch.clamp(source, max=0, out=room)
        torch.clamp(source, min=0, out=rest)


def _zero(tails: list[Tensor]) -> None:
    for tail in tails:
        tail.zero_()


@torch.library.custom_op("attcr::triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give the output, and for the backward the normaliser and the state that each step began with."""
    out, z_out, states = _empty_results(q, k, v)
    steps, dim = _Steps(q), q.shape[3]
    width = _width(dim)
    room = (steps.lanes, steps.chunks)
    both, one, state = (2, *room, CHUNK, dim), (*room, CHUNK, width), (*room, dim, width)
    phi, positive, values, result, kv, before, weights = _rooms(
        q, both, both, one, one, state, state, (*room, CHUNK, CHUNK)
    )
    values[..., dim:] = 0
    values[..., dim] = 1
    z = result[..., dim : dim + 1]
    q_rooms, k_rooms, q_positive, k_positive, v_rooms, n_rooms, z_rooms = map(
        steps.rooms, (*phi, *positive, values[..., :dim], result[..., :dim], z)
    )
    tails = steps.tails(*phi, values[..., :dim])
    # The same rooms with one batch dimension, as matrix products take them.
    phi_q, phi_k, values_, result_, weights_, kv_, before_ = (
        x.flatten(0, 1) for x in (*phi, values, result, weights, kv, before)
    )
    carry_lanes = before.new_empty(steps.lanes, dim, width)
    for group in steps.groups:
        q_blocks, k_blocks, v_blocks, out_blocks, z_blocks = (steps.blocks(x[group]) for x in (q, k, v, out, z_out))
        group_states = states[group].unflatten(2, (2, steps.half)).unbind(1)  # I, 2, h/2, d, w before each step
        lanes = carry_lanes.unflatten(0, (2, steps.items, steps.half)).transpose(0, 1)
        carry_lanes.zero_()
        for step in range(steps.count):
            group_states[step].copy_(lanes)
            _take_phi(q_blocks[step], q_rooms[step], q_positive[step])
            _take_phi(k_blocks[step], k_rooms[step], k_positive[step])
            phi.exp_().add_(positive)
            _take(v_blocks[step], v_rooms[step])
            _zero(tails[step])

            torch.bmm(phi_k.mT, values_, out=kv_)
            steps.sum_before(kv, carry_lanes, before)
            steps.step_on(kv, before, carry_lanes, (-1, 0))
            torch.bmm(phi_q, phi_k.mT, out=weights_)
            steps.mask(weights)
            torch.bmm(weights_, values_, out=result_).baddbmm_(phi_q, before_)

            z.add_(EPS)
            _take(z_rooms[step], z_blocks[step])
            for side in (0, 1):
                torch.div(n_rooms[step][side], z_rooms[step][side], out=out_blocks[step][side])
        group_states[-1].copy_(lanes)
    return out, z_out, states


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, n, dim = q.shape
    return (
        empty_tokens(v),
        q.new_empty(batch, heads, n, 1, dtype=_wide(q)),
        # One more than there are steps: a graph for any number of tokens takes no sizes that may be 1.
        q.new_empty(batch, (n + BLOCK - 1) // BLOCK + 1, heads, dim, _width(dim), dtype=_wide(q)),
    )


@torch.library.custom_op("attcr::triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor, states: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients to q, k and v.

    With n_i the numerator and z_i the normaliser of token i, out_i = n_i / z_i. So dn = grad / z, dz = -dn . out,
    dphi_q_i = sum_j phi_k_j (v_j . dn_i + dz_i), dphi_k_j = sum_i phi_q_i (v_j . dn_i + dz_i) and
    dv_j = sum_i (phi_q_i . phi_k_j) dn_i, where token i sees token j. With dz as a column of dn beside the ones of
    v these are three products of one form.
    """
    grads = empty_grads(grad, q, k, v)
    steps = _Steps(q)
    work = _BackwardStep(q, steps)
    for group in steps.groups:
        inputs = tuple(steps.blocks(x[group]) for x in (q, k, v, out, z, grad))
        outputs = tuple(steps.blocks(x[group]) for x in grads)
        group_states = (
            states[group].unflatten(2, (2, steps.half)).transpose(0, 1).transpose(1, 2)
        )  # steps, 2, I, h/2, d, w
        work.carry_lanes.zero_()
        for step in reversed(range(steps.count)):
            work.take(step, *(blocks[step] for blocks in inputs))
            work.multiply(group_states[step].flatten(0, 2))
            work.give(step, *(blocks[step] for blocks in outputs))
    return grads


class _BackwardStep:
    """The memory of one step of the backward, reused by all steps, and what is done in it."""

    def __init__(self, q: Tensor, steps: _Steps) -> None:
        self.steps, self.dim = steps, q.shape[3]
        dim, width = self.dim, _width(self.dim)
        room = (steps.lanes, steps.chunks)
        both, one, state = (2, *room, CHUNK, dim), (*room, CHUNK, width), (*room, dim, width)
        phi, dphi, values, dn, dv, kv, before, qn, after, weights, z_room = _rooms(
            q, both, both, one, one, one, state, state, state, state, (*room, CHUNK, CHUNK), (*room, CHUNK, 1)
        )
        values[..., dim:] = 0
        values[..., dim] = 1
        dn[..., dim:] = 0
        self.phi, self.dphi, self.dn, self.weights, self.z_room = phi, dphi, dn, weights, z_room
        self.kv, self.before, self.qn, self.after = kv, before, qn, after
        self.dn_part, self.dv_part = dn[..., :dim], dv[..., :dim]
        self.rooms = tuple(map(steps.rooms, (*phi, *dphi, values[..., :dim], self.dn_part, self.dv_part, z_room)))
        self.tails, self.dn_tails = steps.tails(*phi, values[..., :dim]), steps.tails(dn)
        self.flat = tuple(x.flatten(0, 1) for x in (*phi, *dphi, values, dn, dv, weights, kv, before, qn, after))
        self.carry_lanes = before.new_empty(steps.lanes, dim, width)  # sum of phi_q^T dn over the tokens that see it

    def take(self, step: int, q: Sides, k: Sides, v: Sides, out: Sides, z: Sides, grad: Sides) -> None:
        """Bring a step's blocks in: phi of q and k, v, and dn with dz beside it."""
        q_rooms, k_rooms, dq_rooms, dk_rooms, v_rooms, dn_rooms, dv_rooms, z_rooms = self.rooms
        _take_phi(q, q_rooms[step], dq_rooms[step])
        _take_phi(k, k_rooms[step], dk_rooms[step])
        self.phi.exp_().add_(self.dphi)
        _take(v, v_rooms[step])
        _zero(self.tails[step])
        _take(z, z_rooms[step])
        _take(grad, dn_rooms[step])
        _take(out, dv_rooms[step])
        self.dn_part.div_(self.z_room)
        torch.sum(self.dv_part.mul_(self.dn_part), -1, out=self.dn[..., self.dim]).neg_()
        _zero(self.dn_tails[step])

    def multiply(self, states: Tensor) -> None:
        """Compute dphi and dv of the step, and carry its sum on to the tokens before."""
        phi_q, phi_k, dphi_q, dphi_k, values, dn, dv, weights, kv, before, qn, after = self.flat
        torch.bmm(phi_k.mT, values, out=kv)
        self.steps.sum_before(self.kv, states, self.before)
        torch.bmm(phi_q.mT, dn, out=qn)
        self.steps.sum_after(self.qn, self.carry_lanes, self.after)
        self.steps.step_on(self.qn, self.after, self.carry_lanes, (0, -1))

        torch.bmm(phi_q, phi_k.mT, out=weights)
        self.steps.mask(self.weights)
        torch.bmm(weights.mT, dn, out=dv).baddbmm_(phi_k, after)
        torch.bmm(dn, values.mT, out=weights)
        self.steps.mask(self.weights)
        torch.bmm(weights, phi_k, out=dphi_q).baddbmm_(dn, before.mT)
        torch.bmm(weights.mT, phi_q, out=dphi_k).baddbmm_(values, after.mT)
        self.dphi.mul_(self.phi.clamp_(max=1))  # ELU(x) + 1 has the slope 1 above 0 and its own value below

    def give(self, step: int, dq: Sides, dk: Sides, dv: Sides) -> None:
        """Write a step's gradients out."""
        _, _, dq_rooms, dk_rooms, _, _, dv_rooms, _ = self.rooms
        _take(dq_rooms[step], dq)
        _take(dk_rooms[step], dk)
        _take(dv_rooms[step], dv)


set_backward(_attend, _attend_backward)


def chunked_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, on any device; shapes as `triangular_attention`."""
    out: Tensor = _attend(q, k, v)[0]
    return out
