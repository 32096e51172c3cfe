"""The figures of the paper's tables."""

import pytest
from benchmarks.paper.complexity import measure

from attcr.networks.attcr import ATTCRConfig


@pytest.mark.parametrize(
    ("preset", "size", "paper", "truth"),
    [
        ("rice1", 256, 53.34, 56.67),
        ("rice2", 256, 53.03, 56.35),
        ("rice1", 128, 13.34, None),
        ("rice1", 32, 0.83, None),
    ],
)
def test_multiply_adds_are_the_paper_s(preset: str, size: int, paper: float, truth: float) -> None:
    cost = measure(ATTCRConfig.preset(preset), size, size)
    assert round(cost.multiply_adds_paper / 1e9, 2) == paper
    if truth:
        assert round(cost.multiply_adds / 1e9, 2) == truth


def test_convolutions_are_counted_as_fvcore_does() -> None:
    fvcore = pytest.importorskip("fvcore.nn")
    import torch

    from attcr.networks.attcr import ATTCR

    config = ATTCRConfig.preset("tiny")
    counter = fvcore.FlopCountAnalysis(ATTCR(config), torch.rand(1, 3, 32, 32))
    counter.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    with torch.no_grad():  # with gradients the 5 x 5 kernels are one operator of ours, which fvcore cannot look into
        by_operator = counter.by_operator()
    normaliser = sum(
        blocks * len(scales) * channels * (32 // shrink) ** 2
        for blocks, scales, channels, shrink in zip(
            config.blocks, config.scales, config.channels, (1, 2, 4, 2, 1), strict=True
        )
    )
    cost = measure(config, 32, 32)
    assert cost.multiply_adds_paper - normaliser == by_operator["conv"] + by_operator["linear"]


def test_training_keeps_more_than_restoring_and_both_grow_with_the_image() -> None:
    small, large = (measure(ATTCRConfig.preset("tiny"), size, size) for size in (64, 128))
    assert small.inference_bytes < small.training_bytes
    assert 3.5 < large.training_bytes / small.training_bytes < 4.5
    assert 3.5 < large.inference_bytes / small.inference_bytes < 4.5
    assert small.stages == ((16, 64, 64), (32, 32, 32), (64, 16, 16), (32, 32, 32), (32, 64, 64))
