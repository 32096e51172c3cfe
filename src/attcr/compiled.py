"""The compiled operators that come with the wheel, loaded with ctypes and run on addresses. Knows no torch.

Where they are not there (a wheel for any platform, an older processor), or ATTCR_KERNEL=0 says so, LANES is 0.
"""

import ctypes
import os
from pathlib import Path

SIZES = (8, 12, 16, 24, 32, 48)
"""Head dims that are compiled."""
KERNELS = (3, 5)
"""Sizes of depthwise kernels whose gradients are compiled."""
LIBRARY = Path(__file__).with_name("ops") / "_kernel.so"


class Strided(ctypes.Structure):
    """Where four dimensions begin, and the strides of the first three in numbers; the last is dense.

    They are (batch, heads, tokens, dim), or (batch, height, width, channels).
    """

    _fields_ = (("data", ctypes.c_void_p), *((f"stride_{axis}", ctypes.c_int64) for axis in range(3)))


class AttentionCall(ctypes.Structure):
    """One run, as kernel.cpp has it. `z` (batch, heads, tokens) is float32 and dense; `threads` is at least 1."""

    _fields_ = (
        *((name, Strided) for name in ("q", "k", "v", "out", "grad", "dq", "dk", "dv")),
        ("z", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("batch", "heads", "tokens")),
        *((name, ctypes.c_int32) for name in ("dim", "bfloat16", "threads", "backward")),
    )


class DepthwiseCall(ctypes.Structure):
    """Gradients of a depthwise convolution, as in depthwise.cpp. `weight` and `dweight` are (size^2, channels)."""

    _fields_ = (
        *((name, Strided) for name in ("x", "grad", "dx")),
        *((name, ctypes.c_void_p) for name in ("weight", "dweight")),
        *((name, ctypes.c_int64) for name in ("batch", "height", "width", "channels")),
        *((name, ctypes.c_int32) for name in ("size", "bfloat16", "threads")),
    )


def run(call: AttentionCall, width: int) -> None:
    """Run it with vectors of `width` floats, LANES or fewer."""
    assert _library is not None  # LANES said so
    failed = _library.attcr_run(ctypes.byref(call), width)
    if failed:
        reason = "there is no memory for it" if failed == 2 else f"heads of {call.dim} numbers were not compiled"
        shape = (call.batch, call.heads, call.tokens, call.dim)
        raise RuntimeError(f"The compiled operator did not run on {shape}: {reason}")


def run_depthwise(call: DepthwiseCall, width: int) -> None:
    """Run it with vectors of `width` floats, LANES or fewer."""
    assert _library is not None  # LANES said so
    failed = _library.attcr_depthwise(ctypes.byref(call), width)
    if failed:
        what = f"kernels of {call.size} on {call.channels} channels were not compiled"
        raise RuntimeError(f"The gradients were not computed: {'there is no memory' if failed == 2 else what}")


def _load() -> ctypes.CDLL | None:
    """Load the library that came with the wheel, if there is one for this system and it is not turned off."""
    if os.environ.get("ATTCR_KERNEL") == "0" or not LIBRARY.exists():
        return None
    try:
        return ctypes.CDLL(str(LIBRARY))
    except OSError:  # built for another system
        return None


_library = _load()
LANES: int = _library.attcr_lanes() if _library else 0
"""The floats in a vector of the code that runs here: 16 (AVX-512), 8 (AVX2), 4 (NEON), or 0 where there is none."""
DEPTHWISE: bool = hasattr(_library, "attcr_depthwise")
"""Whether it has gradients of depthwise convolutions: libraries that were compiled before have not."""
