"""The operator as compiled code that comes with the wheel: the default on CPUs with AVX2 or AVX-512.

It works chunk by chunk as `plain` does, with the chunk in registers. The sums are compensated: the rounding error does
not grow with the number of tokens. Where there is no compiled code for this machine (`attcr.compiled`), the chunked
operator runs.
"""

import torch
from torch import Tensor

from attcr import compiled
from attcr.ops.chunked import dense, empty_grads, empty_tokens, set_backward

LANES, SIZES = compiled.LANES, compiled.SIZES
"""The floats in a vector of the code that runs here, 0 where there is none; and the head dims that are compiled."""
DTYPES = (torch.float32, torch.bfloat16)


def takes(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """Whether the kernel can take tokens of `dim` numbers."""
    return LANES > 0 and device.type == "cpu" and dtype in DTYPES and dim in SIZES


def serves(q: Tensor) -> bool:
    """Whether the kernel can take tokens like q; it cannot in an exported graph for any number of tokens."""
    return takes(q.device, q.dtype, q.shape[3]) and isinstance(q.shape[2], int)


def kernel_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, for tokens that it `serves`; shapes as `triangular_attention`."""
    out: Tensor = _attend(q, k, v)[0]
    return out


@torch.library.custom_op("attcr::kernel_triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Give the output, and for the backward the normaliser."""
    out, z = _empty_results(q, k, v)
    lanes = max(q.shape[0] * q.shape[1], 1)  # no sequence is cut: results must not depend on the number of threads
    threads = min(torch.get_num_threads(), lanes)
    _run({"q": dense(q), "k": dense(k), "v": dense(v), "out": out}, z, threads=threads)
    return out, z


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return empty_tokens(v), q.new_empty(*q.shape[:3], 1, dtype=torch.float32)


@torch.library.custom_op("attcr::kernel_triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients to q, k and v."""
    dq, dk, dv = empty_grads(grad, q, k, v)
    came = {"grad": grad, "q": q, "k": k, "v": v, "out": out}
    _run({**{name: dense(x) for name, x in came.items()}, "dq": dq, "dk": dk, "dv": dv}, z.contiguous())
    return dq, dk, dv


set_backward(_attend, _attend_backward)


def _run(tensors: dict[str, Tensor], z: Tensor, *, width: int | None = None, threads: int | None = None) -> None:
    """Run the kernel on tensors named as in its job, with vectors of `width` floats."""
    q = tensors["q"]
    batch, heads, tokens, dim = q.shape
    job = compiled.AttentionCall(
        **{name: compiled.Strided(x.data_ptr(), *x.stride()[:3]) for name, x in tensors.items()},
        z=z.data_ptr(),
        batch=batch,
        heads=heads,
        tokens=tokens,
        dim=dim,
        bfloat16=q.dtype == torch.bfloat16,
        threads=threads or torch.get_num_threads(),
        backward="grad" in tensors,
    )
    compiled.run(job, width or LANES)
