"""Predictors: what `restore` and `evaluate` run on, whatever computes it. Nothing here needs torch.

| backend | what it runs |
|---|---|
| torch | weights (.safetensors) and modules, on any device of torch |
| onnxruntime | weights, and .onnx of `attcr export` |
| openvino | weights, and .onnx of `attcr export`; bfloat16 where the processor has it |
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from attcr.errors import ConfigError
from attcr.files import sha256
from attcr.predict.predictor import Float32, Predictor, eight_views
from attcr.weights import WeightsHeader, find_weights, load_model, read_header

if TYPE_CHECKING:
    from torch import nn

    from attcr.predict.onnx import OnnxNetwork

__all__ = [
    "Backend",
    "Float32",
    "Predictor",
    "eight_views",
    "multiplies_bfloat16",
    "open_predictor",
    "read_about",
    "settle_dtype",
]

Backend = Literal["auto", "torch", "onnxruntime", "openvino"]
"""What computes; auto leaves it to the file: .onnx to ONNX Runtime, else torch."""
HALF_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""What Linux calls processors that multiply in bfloat16: AMX and AVX-512 of Intel and AMD, and ARM."""
CPU_INFO = Path("/proc/cpuinfo")
EXPORTED = ".onnx"
"""The ending of exported networks."""


def open_predictor(
    weights: str | Path | nn.Module | Predictor,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 0,
    backend: Backend = "auto",
) -> Predictor:
    """Open weights (a published name, a path, hf:// or a URL) or a module; a predictor is returned as it is.

    Weights are .safetensors, or .onnx as `attcr export` writes them.

    A module needs a `spec`, as those from `load_model` have. It is never changed: if it is in training mode, on
    another device or of another type, a copy is used. `threads` are those of this process; 0: the library decides.
    `dtype` "auto" is bfloat16 on CPUs that multiply in it and float32 elsewhere; the identity says which.
    """
    if backend not in get_args(Backend):
        raise ConfigError(f"backend is {backend!r}; expected {', '.join(get_args(Backend))}.")
    if isinstance(weights, (str, Path)):
        path = find_weights(weights)
        if backend == "auto":
            backend = "onnxruntime" if path.suffix.lower() == EXPORTED else "torch"
        return _from_file(path, backend, device=device, dtype=settle_dtype(dtype, device, backend), threads=threads)
    if isinstance(weights, Predictor) and not hasattr(weights, "state_dict"):
        return weights
    if hasattr(weights, "state_dict"):
        if backend not in ("auto", "torch"):
            raise ConfigError(f"A module runs on torch, not on {backend}: give the name or path of weights.")
        from attcr.predict.torch import TorchPredictor

        settled = settle_dtype(dtype, device, "torch")
        return TorchPredictor(cast("nn.Module", weights), device=device, dtype=settled, threads=threads)
    raise ConfigError(
        f"{type(weights).__name__} is not a predictor: give the name or path of weights, a module, or an object that "
        "has a spec and an identity and can be called."
    )


def settle_dtype(dtype: str, device: str, backend: str) -> str:
    """Give the type that "auto" stands for on this machine; any other is itself."""
    if dtype != "auto":
        return dtype
    fast = device == "cpu" and backend in ("torch", "openvino") and multiplies_bfloat16()
    return "bfloat16" if fast else "float32"


def multiplies_bfloat16() -> bool:
    """Say whether this processor multiplies in bfloat16; no where the system does not tell."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return False
    flags = [line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))]
    return bool(flags) and all(HALF_FLAGS & set(each) for each in flags)


def open_graph(network: OnnxNetwork, backend: str, **settings: Any) -> Predictor:
    """Open an ONNX model on onnxruntime or openvino."""
    if backend == "onnxruntime":
        from attcr.predict.onnxruntime import OnnxRuntimePredictor

        return OnnxRuntimePredictor(network, **settings)
    from attcr.predict.openvino import OpenVinoPredictor

    return OpenVinoPredictor(network, **settings)


def _from_file(path: Path, backend: Backend, *, device: str, dtype: str, threads: int) -> Predictor:
    if backend != "torch":
        from attcr.predict.onnx import network_from_file

        return open_graph(network_from_file(path), backend, device=device, dtype=dtype, threads=threads)
    if path.suffix.lower() == EXPORTED:
        raise ConfigError(
            f"{path.name} does not run on torch, but on onnxruntime: leave the backend out, or give the .safetensors "
            "file."
        )
    try:
        from attcr.predict.torch import TorchPredictor
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigError(
            "torch is not installed. Install it, or run these weights without it: `backend=openvino` "
            "(pip install 'attcr[openvino]') or `backend=onnxruntime` (pip install 'attcr[onnx]')."
        ) from error
    module = load_model(path)
    return TorchPredictor(module, device=device, dtype=dtype, threads=threads, weights_sha256=sha256(path))


def read_about(path: Path) -> WeightsHeader:
    """Give what weights say of themselves, exported or not."""
    if path.suffix.lower() == EXPORTED:
        from attcr.predict.onnx import network_from_onnx

        return network_from_onnx(path).header
    return read_header(path)
