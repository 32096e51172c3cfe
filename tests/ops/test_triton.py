"""The GPU operator without a GPU: its rules, under Triton's interpreter, and compiled ahead of time."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from attcr.errors import ConfigError
from attcr.ops import chosen, operator_name, triangular_attention

pytest.importorskip("triton", reason="needs Triton: pip install triton")
ops = sys.modules["attcr.ops"]
INTERPRETER = Path(__file__).with_name("interpreted_triton.py")
INTERPRETED = set(re.findall(r"(?m)^def (test_\w+)", INTERPRETER.read_text()))
EVERY_TIME = "test_chunks_of_both_sizes_equal_the_definition"
KERNELS = ("_sum_keys", "_scan", "_give_out", "_give_dq", "_sum_queries", "_give_dk_dv")
SHARED = {"sm_80": 99, "sm_90": 99, "sm_100": 99, "gfx942": 64}
"""KiB of shared memory of a program, at most: what every GPU of the kind has, sm_86, sm_89 and sm_120 included."""


@pytest.mark.parametrize(
    "name",
    [EVERY_TIME, *(pytest.param(name, marks=pytest.mark.nightly) for name in sorted(INTERPRETED - {EVERY_TIME}))],
)
def test_under_the_interpreter(name: str) -> None:
    """Its switch is read when Triton is loaded, so this runs in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"{INTERPRETER}::{name}"]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_chunks_are_smaller_on_sm_8x_and_in_float32() -> None:
    from attcr.ops.triton import Target

    def chunks(target: Target) -> list[int]:
        return [target.chunk(dtype) for dtype in (torch.bfloat16, torch.float16, torch.float32)]

    assert chunks(Target("cuda", 8)) == [32, 32, 16]
    assert [chunks(Target("cuda", major)) for major in (9, 10, 12)] == [[64, 64, 16]] * 3
    assert [chunks(Target("hip", major)) for major in (8, 9)] == [[64, 64, 32]] * 2


def test_products_keep_as_much_as_the_tokens_have() -> None:
    from attcr.ops.triton import Target

    for dtype, expected in ((torch.bfloat16, "tf32"), (torch.float16, "tf32"), (torch.float32, "tf32x3")):
        assert {Target("cuda", major).precision(dtype) for major in (8, 9, 10, 12)} == {expected}
        assert Target("hip", 9).precision(dtype) == "ieee"


def test_segments_leave_about_as_many_programs_as_fill_a_gpu() -> None:
    from attcr.ops import triton

    def segment(batch: int, heads: int, tokens: int) -> int:
        return triton._segment(torch.empty(batch, heads, tokens, 8, device="meta"))

    assert segment(1, 2, 1) == segment(1, 2, 16_384) == 64
    assert segment(1, 2, 65_536) == 4 * 64
    assert segment(4, 8, 65_536) == 64 * 64
    assert segment(1, 2, 2**22) == 4096


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Tokens on a GPU that is not there: shapes alone."""
    from attcr.ops import triton

    triton.target_of.cache_clear()
    monkeypatch.setattr(triton, "target_of", lambda _: triton.Target("cuda", 9))
    return monkeypatch


def on(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(*shape, dtype=dtype, device=device)


def test_gpus_run_triton_and_without_it_the_plain_operator(gpu: pytest.MonkeyPatch) -> None:
    tokens = on("cuda", 1, 2, 100, 48)
    assert chosen(tokens) == operator_name("cuda", "float32") == operator_name("cuda:0", "bfloat16") == "triton"
    assert chosen(on("cuda", 1, 2, 100, 48, dtype=torch.float16)) == "triton"
    assert chosen(on("cuda", 1, 2, 100, 48, dtype=torch.float64)) == operator_name("cuda", "float64") == "plain"
    assert chosen(on("cuda", 1, 2, 100, 65)) == "plain"
    assert chosen(on("mps", 1, 2, 100, 48)) == operator_name("mps", "float32") == "plain"
    assert chosen(torch.empty(1, 2, 100, 48, device="meta")) == "chunked"
    gpu.setattr(ops, "TRITON", False)
    assert chosen(tokens) == operator_name("cuda", "float32") == "plain"
    with pytest.raises(ConfigError, match="needs Triton, which is not installed: pip install triton"):
        chosen(tokens, impl="triton")


def test_gpus_before_sm_80_run_the_plain_operator(gpu: pytest.MonkeyPatch) -> None:
    from attcr.ops import triton

    for target, expected in (
        (triton.Target("cuda", 7), "plain"),
        (triton.Target("cuda", 8), "triton"),
        (triton.Target("hip", 9), "triton"),
    ):
        gpu.setattr(triton, "target_of", lambda _, target=target: target)
        assert chosen(on("cuda", 1, 2, 100, 48)) == expected


def test_more_than_the_plain_operator_has_memory_for_stays_chunked() -> None:
    assert chosen(on("mps", 2, 2, 2**18, 48)) == "plain"
    assert chosen(on("mps", 2, 2, 2**18 + 1, 48)) == "chunked"


def test_the_cpu_does_not_run_it() -> None:
    assert chosen(torch.empty(1, 2, 5, 12)) != "triton"
    with pytest.raises(ConfigError, match="float32 on cpu; it takes up to 64 numbers"):
        chosen(torch.empty(1, 2, 5, 12), impl="triton")


def test_a_graph_for_a_gpu_is_traced_without_one() -> None:
    with FakeTensorMode():
        qkv = [torch.empty(2, 300, 4, 24, device="cuda").transpose(1, 2) for _ in range(3)]
        out = triangular_attention(*qkv)
        _, z, before = torch.ops.attcr.triton_triangular_attention(*qkv)
        grads = torch.ops.attcr.triton_triangular_attention_backward(out, *qkv, z, before)
    assert chosen(qkv[0]) == "triton"
    for x in (out, *grads):
        assert (x.shape, x.stride(), x.device.type) == ((2, 4, 300, 24), (28_800, 24, 96, 1), "cuda")


@cache
def compiled(*cases: tuple[str, str, int, str]) -> list[dict[str, Any]]:
    """What kernels need, compiled in a process of its own; Triton keeps what it has compiled for the next time."""
    file = Path(__file__).with_name("compile_triton.py")
    command = [sys.executable, str(file), *(str(word) for case in cases for word in case)]
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def fits(made: dict[str, Any], stack: int) -> bool:
    most = 255 if made["target"].startswith("sm_") else 512
    return made["shared"] <= SHARED[made["target"]] * 1024 and made["registers"] <= most and made["stack"] <= stack


@pytest.mark.nightly
@pytest.mark.parametrize("target", SHARED)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_largest_kernels_compile_and_keep_to_registers(target: str, dtype: str) -> None:
    """With heads of 48 numbers: what the networks of the paper have, and more than the published."""
    stack = 512 if (target, dtype) == ("sm_80", "float32") else 64
    for made in compiled(*((target, dtype, 48, kernel) for kernel in KERNELS)):
        assert fits(made, stack=stack), made
        products = "".join(made["products"])
        assert made["kernel"] == "_scan" or ("mfma" if target == "gfx942" else "tf32") in products, made
        assert "bf16" not in products


@pytest.mark.slow
@pytest.mark.parametrize("target", SHARED)
@pytest.mark.parametrize(("dtype", "dim"), [("bfloat16", 12), ("bfloat16", 24), ("float32", 12), ("float32", 24)])
def test_all_kernels_of_published_networks_compile(target: str, dtype: str, dim: int) -> None:
    for made in compiled(*((target, dtype, dim, kernel) for kernel in KERNELS)):
        assert fits(made, stack=64), made
