"""Triangular attention on GPUs, written in Triton: three launches forward and four backward for any number of tokens.

The tokens of a head are cut into segments and those into chunks. What a token sees inside its chunk is a small masked
product; what lies before the chunk enters through a state, the sum of phi(k)^T v and of phi(k), which a program keeps
in registers while it walks its segment. So that all segments can run at once, a first launch sums each segment, a
second adds up these sums in the head's direction, and a third starts each segment with the sum of those before it.
The backward pass needs the same sums for the gradient to q. The gradients to k and v are sums over the tokens that see
a token, so phi(q)^T dn is summed instead, starting from the other end.

All sums are made in float32, whatever the type of the tokens. Nothing here waits for the GPU, and no shape depends on
which GPU it is: a graph may be traced on another machine, and captured.
"""

# B batch, h heads, N tokens, d head dim, lane = one head of one item, P = d filled up to a power of two

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
import triton
import triton.language as tl
from torch import Tensor

from attcr.ops.chunked import dense, empty_grads, empty_tokens, set_backward
from attcr.ops.naive import EPS

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 64
"""The most numbers that a head may have: more do not fit into registers."""
SHORTEST, LONGEST = 64, 4096
"""The fewest and the most tokens of a segment; lengths are the first times a power of two."""
PROGRAMS = 512
"""Programs that fill a GPU: segments are made so long that there are about so many."""
ROWS, COLUMNS = 64, 64
"""States, and numbers of each, that the second launch takes at a time."""

_EPS = tl.constexpr(EPS)
_jit: Callable[[Callable[..., Any]], Any] = triton.jit(
    do_not_specialize=["heads", "tokens", "steps", "segments"]  # else there would be a compilation for each case
)


@dataclass(frozen=True)
class Target:
    """The kind of a GPU, and what that decides."""

    maker: Literal["cuda", "hip"]
    major: int
    """Of the compute capability: 8 for sm_80 to sm_89."""

    def serves(self) -> bool:
        """Whether the kernels run there; NVIDIA GPUs before sm_80 have no tf32."""
        return self.maker == "hip" or self.major >= 8

    def chunk(self, dtype: torch.dtype) -> int:
        """Tokens of a chunk: as many as fit into registers. Three products in tf32 need the most of them."""
        if dtype == torch.float32:
            return 16 if self.maker == "cuda" else 32
        return 32 if self.maker == "cuda" and self.major == 8 else 64

    def precision(self, dtype: torch.dtype) -> str:
        """How products are made: tf32 keeps more than bfloat16 tokens have, three of them nearly all of float32."""
        if self.maker == "hip":
            return "ieee"
        return "tf32x3" if dtype == torch.float32 else "tf32"

    def options(self) -> dict[str, int]:
        """How the kernels are compiled: with as many warps as give a program the most registers."""
        return {"num_warps": 8 if self.maker == "cuda" else 4, "num_stages": 2}


@cache
def target_of(device: torch.device) -> Target:
    """The kind of GPU behind a device; a recent NVIDIA one where there is none, as when a graph is traced elsewhere."""
    if torch.version.hip:
        return Target("hip", 9)
    return Target("cuda", torch.cuda.get_device_capability(device)[0] if torch.cuda.is_available() else 9)


def serves(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """Whether the kernels can take tokens of `dim` numbers; Triton's interpreter takes them on the CPU too."""
    here = target_of(device).serves() if device.type == "cuda" else not isinstance(_phi, triton.JITFunction)
    return here and dtype in DTYPES and dim <= WIDEST


def triton_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, on GPUs; shapes as `triangular_attention`, with d of at most WIDEST."""
    out: Tensor = _attend(q, k, v)[0]
    return out


@torch.library.custom_op("attcr::triton_triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give the output, and for the backward the normaliser and the state that each segment began with."""
    out, z, before = _empty_results(q, k, v)
    q, k, v, states = dense(q), dense(k), dense(v), torch.empty_like(before)
    launch = _Launch(q)
    with torch.cuda.device_of(q):
        launch(_sum_keys, k, v, states, *_strides(k, v))
        launch.scan(states, before, turned=False)
        launch(_give_out, q, k, v, before, out, z, *_strides(q, k, v, out))
    return out, z, before


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, tokens, dim = q.shape
    segment = _segment(q)
    states = (batch * heads, (tokens + segment - 1) // segment, _padded(dim) * (_padded(dim) + 1))
    return (
        empty_tokens(v),
        q.new_empty(batch, heads, tokens, 1, dtype=torch.float32),
        q.new_empty(states, dtype=torch.float32),
    )


@torch.library.custom_op("attcr::triton_triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, z: Tensor, before: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients to q, k and v; the formulas are beside `chunked._attend_backward`.

    dz = -dn . n / z, and dn . n is phi(q) . u with u = sum_j phi(k_j) (v_j . dn), the first part of the gradient to q.
    So the gradient to q comes first and hands dz on to the others, without the rounding that the output has.
    """
    dq, dk, dv = empty_grads(grad, q, k, v)
    q, k, v, grad, z, before = *map(dense, (q, k, v, grad)), z.contiguous(), before.contiguous()
    states, after, dz = torch.empty_like(before), torch.empty_like(before), torch.empty_like(z)
    launch = _Launch(q)
    with torch.cuda.device_of(q):
        launch(_give_dq, q, k, v, grad, z, before, dq, dz, *_strides(q, k, v, grad, dq))
        launch(_sum_queries, q, grad, z, dz, states, *_strides(q, grad))
        launch.scan(states, after, turned=True)
        launch(_give_dk_dv, q, k, v, grad, z, dz, after, dk, dv, *_strides(q, k, v, grad, dk))
    return dq, dk, dv


set_backward(_attend, _attend_backward, kept=slice(1, None))


class _Launch:
    """The launches for tokens like q: one program for each lane and segment."""

    def __init__(self, q: Tensor) -> None:
        batch, heads, tokens, dim = q.shape
        target, segment = target_of(q.device), _segment(q)
        chunk = target.chunk(q.dtype)
        self.lanes, self.heads, self.segments = batch * heads, heads, -(-tokens // segment)
        self.sizes = (heads, tokens, segment // chunk, self.segments)
        constants = {"D": dim, "P": _padded(dim), "C": chunk, "DOT": target.precision(q.dtype)}
        self.constants = {**constants, **target.options()}

    def __call__(self, kernel: Any, *arguments: Any) -> None:
        grid = (self.lanes, self.segments, 2 if kernel is _give_dk_dv else 1)
        kernel[grid](*arguments, *self.sizes, **self.constants)

    def scan(self, states: Tensor, sums: Tensor, *, turned: bool) -> None:
        numbers = states.shape[2]
        constants = {"NUMBERS": numbers, "TURNED": turned, "R": ROWS, "X": COLUMNS}
        _scan[(self.lanes, -(-numbers // COLUMNS))](states, sums, self.heads, self.segments, **constants)


def _segment(q: Tensor) -> int:
    """Tokens that one program walks."""
    batch, heads, tokens, _ = q.shape
    shortest = (tokens + SHORTEST - 1) // SHORTEST * batch * heads
    segment: int = SHORTEST * torch.sym_max(1, torch.sym_min(LONGEST // SHORTEST, shortest // PROGRAMS))
    return segment


def _padded(dim: int) -> int:
    """A head's numbers filled up to a power of two, at least what a matrix product takes."""
    return max(16, 1 << (dim - 1).bit_length())


def _strides(*tensors: Tensor) -> list[int]:
    return [step for x in tensors for step in x.stride()[:3]]


@_jit
def _phi(x: tl.tensor) -> tl.tensor:
    """ELU(x) + 1; NaN stays NaN."""
    return tl.where(x > 0, x + 1, tl.exp(x))


@_jit
def _dot(a: tl.tensor, b: tl.tensor, DOT: tl.constexpr) -> tl.tensor:
    return tl.dot(a, b, input_precision=DOT)


@_jit
def _lane(heads: tl.tensor) -> tl.tensor:
    """Which lane this program works on, its item, its head, and whether that looks ahead."""
    lane = tl.program_id(0).to(tl.int64)  # offsets into large tensors need 64 bits
    head = lane % heads
    return lane, lane // heads, head, head >= heads // 2


@_jit
def _at(
    x: tl.tensor, item: tl.tensor, head: tl.tensor, first: tl.tensor, row: tl.tensor, number: tl.tensor,
    x_b: tl.tensor, x_h: tl.tensor, x_n: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Where the numbers of a chunk lie: 64 bits up to its first token, 32 from there on, to save registers."""
    return x + item * x_b + head * x_h + first.to(tl.int64) * x_n + (row[:, None] * x_n + number[None, :])


@_jit
def _read(
    x: tl.tensor, item: tl.tensor, head: tl.tensor, first: tl.tensor, row: tl.tensor, number: tl.tensor,
    x_b: tl.tensor, x_h: tl.tensor, x_n: tl.tensor, tokens: tl.tensor, D: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """A chunk (C, P) of tokens in float32, 0 past the last token and number."""
    real = (first + row < tokens)[:, None] & (number < D)[None, :]
    return tl.load(_at(x, item, head, first, row, number, x_b, x_h, x_n), mask=real, other=0.0).to(tl.float32)


@_jit
def _read_phi(
    x: tl.tensor, item: tl.tensor, head: tl.tensor, first: tl.tensor, row: tl.tensor, number: tl.tensor,
    x_b: tl.tensor, x_h: tl.tensor, x_n: tl.tensor, tokens: tl.tensor, D: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Give phi of what `_read` gives. As phi(0) is 1, what lies past the last token is set to 0 again."""
    phi = _phi(_read(x, item, head, first, row, number, x_b, x_h, x_n, tokens, D))
    return tl.where((first + row < tokens)[:, None] & (number < D)[None, :], phi, 0.0)


@_jit
def _read_each(x: tl.tensor, lane: tl.tensor, first: tl.tensor, row: tl.tensor, tokens: tl.tensor) -> tl.tensor:
    """One number (C) for each token of a chunk, 1 past the last."""
    return tl.load(x + lane * tokens + first + row, mask=first + row < tokens, other=1.0)


@_jit
def _write_each(
    x: tl.tensor, values: tl.tensor, lane: tl.tensor, first: tl.tensor, row: tl.tensor, tokens: tl.tensor
) -> None:
    tl.store(x + lane * tokens + first + row, values, mask=first + row < tokens)


@_jit
def _write(
    x: tl.tensor, values: tl.tensor, item: tl.tensor, head: tl.tensor, first: tl.tensor, row: tl.tensor,
    number: tl.tensor, x_b: tl.tensor, x_h: tl.tensor, x_n: tl.tensor, tokens: tl.tensor, D: tl.constexpr,
) -> None:  # fmt: skip
    real = (first + row < tokens)[:, None] & (number < D)[None, :]
    tl.store(_at(x, item, head, first, row, number, x_b, x_h, x_n), values.to(x.dtype.element_ty), mask=real)


@_jit
def _read_state(states: tl.tensor, lane: tl.tensor, segments: tl.tensor, P: tl.constexpr) -> tl.tensor:
    """The state of this program's segment: sums of key^T value (P, P) and of keys (P)."""
    row = tl.arange(0, P)
    state = states + (lane * segments + tl.program_id(1)) * (P * P + P)
    return tl.load(state + row[:, None] * P + row[None, :]), tl.load(state + P * P + row)


@_jit
def _write_state(
    states: tl.tensor, s: tl.tensor, z: tl.tensor, lane: tl.tensor, segments: tl.tensor, P: tl.constexpr
) -> None:
    row = tl.arange(0, P)
    state = states + (lane * segments + tl.program_id(1)) * (P * P + P)
    tl.store(state + row[:, None] * P + row[None, :], s)
    tl.store(state + P * P + row, z)


@_jit
def _sum_keys(
    k: tl.tensor, v: tl.tensor, states: tl.tensor,
    k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor, v_b: tl.tensor, v_h: tl.tensor, v_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """Sum phi(k)^T v and phi(k) over each segment."""
    lane, item, head, _ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    s, z = tl.zeros((P, P), tl.float32), tl.zeros((P,), tl.float32)
    for step in range(steps):
        first = (tl.program_id(1) * steps + step) * C
        phi_k = _read_phi(k, item, head, first, row, number, k_b, k_h, k_n, tokens, D)
        values = _read(v, item, head, first, row, number, v_b, v_h, v_n, tokens, D)
        s += _dot(tl.trans(phi_k), values, DOT)
        z += tl.sum(phi_k, 0)
    _write_state(states, s, z, lane, segments, P)


@_jit
def _sum_queries(
    q: tl.tensor, grad: tl.tensor, z: tl.tensor, dz: tl.tensor, states: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, g_b: tl.tensor, g_h: tl.tensor, g_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """Sum phi(q)^T dn and phi(q) dz over each segment."""
    lane, item, head, _ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    s, sz = tl.zeros((P, P), tl.float32), tl.zeros((P,), tl.float32)
    for step in range(steps):
        first = (tl.program_id(1) * steps + step) * C
        phi_q = _read_phi(q, item, head, first, row, number, q_b, q_h, q_n, tokens, D)
        dn = _read(grad, item, head, first, row, number, g_b, g_h, g_n, tokens, D)
        dn /= _read_each(z, lane, first, row, tokens)[:, None]
        s += _dot(tl.trans(phi_q), dn, DOT)
        sz += tl.sum(phi_q * _read_each(dz, lane, first, row, tokens)[:, None], 0)
    _write_state(states, s, sz, lane, segments, P)


@_jit
def _scan(
    states: tl.tensor, sums: tl.tensor, heads: tl.tensor, segments: tl.tensor,
    NUMBERS: tl.constexpr, TURNED: tl.constexpr, R: tl.constexpr, X: tl.constexpr,
) -> None:  # fmt: skip
    """Give each segment the sum of those that its head has passed before it; TURNED walks from the other end."""
    lane, _item, _head, ahead = _lane(heads)
    number = tl.program_id(1) * X + tl.arange(0, X)
    last = ahead != TURNED  # whether the walk begins with the last segment
    lowest = lane * segments
    carry = tl.zeros((X,), tl.float32)
    for start in range(0, segments, R):
        place = start + tl.arange(0, R)  # in the order of the walk
        to = tl.where(last, segments - 1 - place, place)
        source = tl.where(last, to + 1, to - 1)
        real = (place < segments)[:, None] & (number < NUMBERS)[None, :]
        passed = tl.load(
            states + (lowest + source)[:, None] * NUMBERS + number[None, :], mask=real & (place > 0)[:, None], other=0.0
        )
        result = carry[None, :] + tl.cumsum(passed, 0)
        tl.store(sums + (lowest + to)[:, None] * NUMBERS + number[None, :], result, mask=real)
        carry += tl.sum(passed, 0)


@_jit
def _give_out(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, before: tl.tensor, out: tl.tensor, z: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor,
    v_b: tl.tensor, v_h: tl.tensor, v_n: tl.tensor, o_b: tl.tensor, o_h: tl.tensor, o_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """Write the output and the normaliser of each segment."""
    lane, item, head, ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    sees = tl.where(ahead, row[:, None] <= row[None, :], row[:, None] >= row[None, :])  # query, key
    s, sz = _read_state(before, lane, segments, P)
    for i in range(steps):
        first = (tl.program_id(1) * steps + tl.where(ahead, steps - 1 - i, i)) * C
        phi_q = _read_phi(q, item, head, first, row, number, q_b, q_h, q_n, tokens, D)
        phi_k = _read_phi(k, item, head, first, row, number, k_b, k_h, k_n, tokens, D)
        values = _read(v, item, head, first, row, number, v_b, v_h, v_n, tokens, D)
        weights = tl.where(sees, _dot(phi_q, tl.trans(phi_k), DOT), 0.0)
        norm = tl.sum(weights, 1) + tl.sum(phi_q * sz[None, :], 1) + _EPS
        result = (_dot(weights, values, DOT) + _dot(phi_q, s, DOT)) / norm[:, None]
        _write(out, result, item, head, first, row, number, o_b, o_h, o_n, tokens, D)
        _write_each(z, norm, lane, first, row, tokens)
        s += _dot(tl.trans(phi_k), values, DOT)
        sz += tl.sum(phi_k, 0)


@_jit
def _give_dq(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, grad: tl.tensor, z: tl.tensor, before: tl.tensor, dq: tl.tensor,
    dz: tl.tensor, q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor,
    v_b: tl.tensor, v_h: tl.tensor, v_n: tl.tensor, g_b: tl.tensor, g_h: tl.tensor, g_n: tl.tensor,
    d_b: tl.tensor, d_h: tl.tensor, d_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """Write dz and the gradient to q of each segment: sums over the tokens seen, walked as the output was."""
    lane, item, head, ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    sees = tl.where(ahead, row[:, None] <= row[None, :], row[:, None] >= row[None, :])  # query, key
    s, sz = _read_state(before, lane, segments, P)
    for i in range(steps):
        first = (tl.program_id(1) * steps + tl.where(ahead, steps - 1 - i, i)) * C
        values = _read(v, item, head, first, row, number, v_b, v_h, v_n, tokens, D)
        norm = _read_each(z, lane, first, row, tokens)
        dn = _read(grad, item, head, first, row, number, g_b, g_h, g_n, tokens, D) / norm[:, None]
        weights = tl.where(sees, _dot(dn, tl.trans(values), DOT), 0.0)
        result = _dot(dn, tl.trans(s), DOT)
        phi_k = _read_phi(k, item, head, first, row, number, k_b, k_h, k_n, tokens, D)
        result += _dot(weights, phi_k, DOT)
        s += _dot(tl.trans(phi_k), values, DOT)
        phi_q = _read_phi(q, item, head, first, row, number, q_b, q_h, q_n, tokens, D)
        change = -tl.sum(phi_q * result, 1) / norm
        _write_each(dz, change, lane, first, row, tokens)
        passed, total = tl.cumsum(phi_k, 0), tl.sum(phi_k, 0)
        seen = tl.where(ahead, total[None, :] - passed + phi_k, passed)
        result += change[:, None] * (seen + sz[None, :])
        slope = tl.minimum(phi_q, 1.0)  # of ELU(x) + 1: 1 above 0, its own value below
        _write(dq, result * slope, item, head, first, row, number, d_b, d_h, d_n, tokens, D)
        sz += total


@_jit
def _give_dk(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, grad: tl.tensor, z: tl.tensor, dz: tl.tensor, after: tl.tensor,
    dk: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor,
    v_b: tl.tensor, v_h: tl.tensor, v_n: tl.tensor, g_b: tl.tensor, g_h: tl.tensor, g_n: tl.tensor,
    d_b: tl.tensor, d_h: tl.tensor, d_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    lane, item, head, ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    seen_by = tl.where(ahead, row[:, None] >= row[None, :], row[:, None] <= row[None, :])  # key, query
    s, sz = _read_state(after, lane, segments, P)
    for i in range(steps):
        first = (tl.program_id(1) * steps + tl.where(ahead, i, steps - 1 - i)) * C
        phi_q = _read_phi(q, item, head, first, row, number, q_b, q_h, q_n, tokens, D)
        dn = _read(grad, item, head, first, row, number, g_b, g_h, g_n, tokens, D)
        dn /= _read_each(z, lane, first, row, tokens)[:, None]
        change = _read_each(dz, lane, first, row, tokens)
        values = _read(v, item, head, first, row, number, v_b, v_h, v_n, tokens, D)
        weights = tl.where(seen_by, _dot(values, tl.trans(dn), DOT) + change[None, :], 0.0)
        result = _dot(weights, phi_q, DOT) + _dot(values, tl.trans(s), DOT) + sz[None, :]
        phi_k = _read_phi(k, item, head, first, row, number, k_b, k_h, k_n, tokens, D)
        slope = tl.minimum(phi_k, 1.0)
        _write(dk, result * slope, item, head, first, row, number, d_b, d_h, d_n, tokens, D)
        s += _dot(tl.trans(phi_q), dn, DOT)
        sz += tl.sum(phi_q * change[:, None], 0)


@_jit
def _give_dv(
    q: tl.tensor, k: tl.tensor, grad: tl.tensor, z: tl.tensor, after: tl.tensor, dv: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor,
    g_b: tl.tensor, g_h: tl.tensor, g_n: tl.tensor, d_b: tl.tensor, d_h: tl.tensor, d_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    lane, item, head, ahead = _lane(heads)
    number, row = tl.arange(0, P), tl.arange(0, C)
    seen_by = tl.where(ahead, row[:, None] >= row[None, :], row[:, None] <= row[None, :])  # key, query
    s, _sz = _read_state(after, lane, segments, P)
    for i in range(steps):
        first = (tl.program_id(1) * steps + tl.where(ahead, i, steps - 1 - i)) * C
        phi_q = _read_phi(q, item, head, first, row, number, q_b, q_h, q_n, tokens, D)
        phi_k = _read_phi(k, item, head, first, row, number, k_b, k_h, k_n, tokens, D)
        weights = tl.where(seen_by, _dot(phi_k, tl.trans(phi_q), DOT), 0.0)
        dn = _read(grad, item, head, first, row, number, g_b, g_h, g_n, tokens, D)
        dn /= _read_each(z, lane, first, row, tokens)[:, None]
        result = _dot(weights, dn, DOT) + _dot(phi_k, s, DOT)
        _write(dv, result, item, head, first, row, number, d_b, d_h, d_n, tokens, D)
        s += _dot(tl.trans(phi_q), dn, DOT)


@_jit
def _give_dk_dv(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, grad: tl.tensor, z: tl.tensor, dz: tl.tensor, after: tl.tensor,
    dk: tl.tensor, dv: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_n: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_n: tl.tensor,
    v_b: tl.tensor, v_h: tl.tensor, v_n: tl.tensor, g_b: tl.tensor, g_h: tl.tensor, g_n: tl.tensor,
    d_b: tl.tensor, d_h: tl.tensor, d_n: tl.tensor,
    heads: tl.tensor, tokens: tl.tensor, steps: tl.tensor, segments: tl.tensor,
    D: tl.constexpr, P: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """Write the gradients to k and v of each segment: sums over the tokens that see a token, from the other end.

    Both need the same state, but a program that made both would run out of registers: each makes one.
    """
    if tl.program_id(2) == 0:
        _give_dk(
            q, k, v, grad, z, dz, after, dk, q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n,
            d_b, d_h, d_n, heads, tokens, steps, segments, D, P, C, DOT,
        )  # fmt: skip
    else:
        _give_dv(
            q, k, grad, z, after, dv, q_b, q_h, q_n, k_b, k_h, k_n, g_b, g_h, g_n,
            d_b, d_h, d_n, heads, tokens, steps, segments, D, P, C, DOT,
        )  # fmt: skip
