"""Compile kernels of ops/triton.py for GPUs that are not here, and print what they need: test_triton.py runs this.

python compile_triton.py TARGET DTYPE DIM KERNEL [TARGET ...], as in: sm_90 bfloat16 48 _give_out. A line of JSON each.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton as library
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attcr.ops import triton

FLOAT32 = ("z", "dz", "states", "sums", "before", "after")
TOKENS = ("q", "k", "v", "grad", "out", "dq", "dk", "dv")
SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def main() -> None:
    given = iter(sys.argv[1:])
    for target, dtype, dim, kernel in zip(given, given, given, given, strict=True):
        print(json.dumps(needs(target, dtype, int(dim), kernel)), flush=True)


def needs(target: str, dtype: str, dim: int, kernel: str) -> dict[str, Any]:
    """Registers of a thread, bytes of its stack, bytes of shared memory, and which matrix products there are."""
    nvidia = target.startswith("sm_")
    made = triton.Target("cuda", int(target[3:-1])) if nvidia else triton.Target("hip", 9)
    kind = getattr(torch, dtype)
    padded = triton._padded(dim)
    known = {"D": dim, "P": padded, "C": made.chunk(kind), "DOT": made.precision(kind)}
    known |= {"NUMBERS": padded * (padded + 1), "TURNED": True, "R": triton.ROWS, "X": triton.COLUMNS}
    function = getattr(triton, kernel)
    signature, constants, attributes = {}, {}, {}
    for at, name in enumerate(function.arg_names):
        if name in known:
            signature[name], constants[name] = "constexpr", known[name]
            continue
        signature[name] = "*fp32" if name in FLOAT32 else f"*{SHORT[dtype]}" if name in TOKENS else "i32"
        if name in FLOAT32 + TOKENS or name[1] == "_":  # pointers and strides, as torch and networks have them
            attributes[(at,)] = [["tt.divisibility", 16]]
    options = {} if kernel == "_scan" else made.options()
    gpu = GPUTarget("cuda", int(target[3:]), 32) if nvidia else GPUTarget("hip", target, 64)
    done = library.compile(ASTSource(function, signature, constants, attributes), target=gpu, options=options)
    told = {"target": target, "dtype": dtype, "dim": dim, "kernel": kernel, "shared": done.metadata.shared}
    return {**told, **(_nvidia(done.asm) if nvidia else _amd(done.asm["amdgcn"]))}


def _nvidia(made: dict[str, Any]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made["cubin"])
        file.flush()
        dump = Path(library.__file__).parent / "backends/nvidia/bin/cuobjdump"
        command = [str(dump), "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack = map(int, re.findall(r"REG:(\d+) STACK:(\d+)", told)[-1])
    products = sorted(set(re.findall(r"(wgmma\.mma|tcgen05\.mma|mma\.sync).*?(tf32|bf16|f16)", made["ptx"])))
    return {"registers": registers, "stack": stack, "products": [" ".join(one) for one in products]}


def _amd(text: str) -> dict[str, Any]:
    def number(field: str) -> int:
        return int(re.findall(rf"\.{field}:\s+(\d+)", text)[-1])

    products = sorted(set(re.findall(r"v_mfma_f32_\w+x\w+?x\d+_?(\w*f\d+)", text)))
    stack = number("private_segment_fixed_size")
    return {"registers": number("vgpr_count"), "stack": stack, "products": [f"mfma {one}" for one in products]}


if __name__ == "__main__":
    main()
