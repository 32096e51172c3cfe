"""The operator as a scan that is compiled on this machine: for training on CPUs, by who has g++.

ATTCR_NATIVE=1 asks for it; nothing else in attcr needs a compiler. A token costs d*d multiplications and no trip to
memory, where the chunked operator makes a dozen passes. Sums run from the first token to the last, so rounding grows
with their number: to 4e-7 of the output at 16,384 random tokens, to 6e-4 where 65,536 tokens are all alike. Longer
sequences than MOST_TOKENS stay chunked.
"""

import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from attcr.errors import ConfigError
from attcr.files import cache_folder, sha256, write_whole
from attcr.ops.chunked import empty_tokens

SIZES = (8, 12, 16, 24, 32, 48)
"""Head dims that are compiled."""
MOST_TOKENS = 2**16
DTYPES = (torch.float32, torch.bfloat16)
ASKED = os.environ.get("ATTCR_NATIVE") == "1"
_SOURCE = Path(__file__).with_name("native.cpp")
_FLAGS = ["-O3", "-march=native", "-std=gnu++20", "-fno-trapping-math", "-fno-signed-zeros", "-fPIC"]


def serves(q: Tensor) -> bool:
    """Whether the scan can take tokens like q; no where their number is free in a graph that is being exported."""
    tokens = q.shape[2]
    return (
        q.device.type == "cpu"
        and q.dtype in DTYPES
        and q.shape[3] in SIZES
        and isinstance(tokens, int)
        and tokens <= MOST_TOKENS
    )


def native_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, for tokens that it `serves`; shapes as `triangular_attention`."""
    out: Tensor = _attend(q, k, v)[0]
    return out


@torch.library.custom_op("attcr::native_triangular_attention", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Give the output, and for the backward the normaliser."""
    _load()
    out, z = _empty_results(q, k, v)
    torch.ops.attcr.scan(_dense(q), _dense(k), _dense(v), out, z)
    return out, z


@_attend.register_fake
def _empty_results(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return empty_tokens(v), q.new_empty(*q.shape[:3], 1, dtype=torch.float32)


@torch.library.custom_op("attcr::native_triangular_attention_backward", mutates_args=())
def _attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the gradients to q, k and v."""
    _load()
    grads: tuple[Tensor, Tensor, Tensor] = _empty_grads(grad, q, k, v, out, z)
    torch.ops.attcr.scan_backward(_dense(grad), _dense(q), _dense(k), _dense(v), _dense(out), z.contiguous(), *grads)
    return grads


@_attend_backward.register_fake
def _empty_grads(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_tokens(q), empty_tokens(k), empty_tokens(v)


def _save(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _attend_backward(grad, *ctx.saved_tensors)  # type: ignore[attr-defined, no-any-return]


_attend.register_autograd(_backward, setup_context=_save)


def _dense(x: Tensor) -> Tensor:
    return x if x.stride(3) == 1 else x.contiguous()


@cache
def _load() -> bool:
    try:
        torch.ops.load_library(str(_build()))
    except OSError as error:
        raise ConfigError(
            f"The native operator could not be made or loaded in {_folder()}: {error}. Name a folder of yours with "
            "XDG_CACHE_HOME, or leave ATTCR_NATIVE unset for the operator that needs none"
        ) from error
    return True


def _folder() -> Path:
    return cache_folder() / "native"


def _build() -> Path:
    """Compile unless that was done before for this source, torch and processor; give the library's path."""
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    cpu = [line for line in _lines("/proc/cpuinfo") if line.startswith(("flags", "Features"))][:1]
    key = "\n".join([_SOURCE.read_text(), torch.__version__, platform.machine(), *cpu, *compiler, *_FLAGS])
    folder = _folder()
    library = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError("it belongs to someone else")
    folder.chmod(0o700)  # who could write here could have us run his code
    digest = library.with_suffix(".sha256")
    if library.is_file() and digest.is_file() and digest.read_text() == sha256(library):
        return library
    home = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=folder) as room:
        made, linked = str(Path(room, "native.o")), str(Path(room, "native.so"))
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        _run([*compiler, *_FLAGS, abi, "-fopenmp", "-isystem", f"{home}/include", "-c", str(_SOURCE), "-o", made])
        # Linked without -fopenmp: threads are torch's, whose OpenMP is loaded already; a second one would fight it.
        _run([*compiler, "-shared", made, f"-L{home}/lib", "-ltorch_cpu", "-lc10", "-o", linked])
        os.replace(linked, library)  # noqa: PTH105
        write_whole(digest, sha256(library))
    return library


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(
            f"The native operator needs a C++ compiler, and there is no {command[0]}: install g++, name another "
            "with CXX, or leave ATTCR_NATIVE unset for the operator that needs none"
        ) from None
    except subprocess.CalledProcessError as error:
        tail = "\n".join(error.stderr.splitlines()[-15:])
        raise ConfigError(
            "The native operator: the compiler failed; leave ATTCR_NATIVE unset for the operator that needs none.\n"
            f"{shlex.join(command)}\n{tail}"
        ) from None
