"""The task by itself: schedules, and a loss that is not finite."""

import math
import os
import subprocess
import sys
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from tools.s2_thin.samples import SPEC

from attcr.bands.spec import OTHER_DATES, TRUE_COLOUR, InputSpec
from attcr.data import Sample
from attcr.errors import ConfigError
from attcr.networks import NETWORKS, Entry
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.train.data import PairData, Source
from attcr.train.task import NotFiniteError, RestorationTask, SpreadLoss, error_left
from attcr.weights import save_model
from fakes import make_pairs
from small_networks import Blend, BlendConfig

CONFIG = {"dim": 8, "blocks": [1, 1, 1, 1, 1], "heads": [2, 2, 2, 2, 2]}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


def test_the_rate_is_flat_then_falls_as_a_cosine() -> None:
    task = RestorationTask(config=CONFIG, lr=4e-4, min_lr=2e-6)
    rates = [4e-4 * task.rate(step, 1000) for step in (0, 300, 650, 1000)]
    assert rates == pytest.approx([4e-4, 4e-4, (4e-4 + 2e-6) / 2, 2e-6])


def test_the_rate_is_halved_at_each_milestone() -> None:
    task = RestorationTask(config=CONFIG, lr=6e-4, schedule="multistep")
    steps = (0, 95_264, 95_265, 127_019, 127_020, 158_774, 158_775)
    assert [task.rate(step, 190_530) for step in steps] == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_the_rate_rises_over_the_warm_up() -> None:
    task = RestorationTask(config=CONFIG, warmup_steps=4)
    assert [task.rate(step, 1000) for step in range(5)] == [0.25, 0.5, 0.75, 1, 1]


def test_a_loss_that_is_not_finite_stops_the_run_and_names_its_batch(tmp_path: Path) -> None:
    make_pairs(tmp_path / "pairs", ("cloudy", "clear"), ["t0", "t1", "v0"])
    task = RestorationTask(config=CONFIG)
    torch.nn.init.constant_(task.network.output.weight, float("nan"))
    data = PairData([Source("pairs", "pairs", hold_out=("v",))], root=str(tmp_path), batch_size=2, crop=16, workers=0)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(max_steps=1, default_root_dir=tmp_path / "run", accelerator="cpu", **quiet)  # type: ignore[arg-type]
    with pytest.raises(NotFiniteError, match="not-finite-step0"):
        trainer.fit(task, data)
    names = (tmp_path / "run" / "not-finite-step0.txt").read_text().split()
    assert sorted(names) == ["t0", "t1"]


def test_recomputed_blocks_give_the_same_gradients() -> None:
    image = torch.rand(1, 3, 16, 16)
    grads = []
    for recompute in (False, True):
        torch.manual_seed(0)
        task = RestorationTask(config=CONFIG, checkpoint_blocks=recompute)
        task(image).square().sum().backward()
        grads.append([p.grad for p in task.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True) if a is not None and b is not None)


def test_a_network_and_its_settings_are_checked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "blend", Entry(BlendConfig, Blend))
    with pytest.raises(ConfigError, match="no network 'unet'; there are attcr"):
        RestorationTask("unet")
    with pytest.raises(ConfigError, match="attcr has no setting width; it has in_channels"):
        RestorationTask("attcr", {"width": 8})
    with pytest.raises(ConfigError, match=r"settings of attcr: \{'dim': 'many'\} do not have the expected types"):
        RestorationTask("attcr", {"dim": "many"})
    with pytest.raises(ConfigError, match="checkpoint_blocks has no effect on blend"):
        RestorationTask("blend", checkpoint_blocks=True)


def test_the_log_mse_loss_ranks_as_psnr_does_and_is_finite_for_a_perfect_image() -> None:
    task = RestorationTask(config=CONFIG, loss="log-mse")
    clear = torch.rand(2, 3, 8, 8)
    errors = (0.0, 0.03, 0.1)
    losses = [float(task.loss(clear + error, clear)) for error in errors]
    assert losses == pytest.approx([math.log(error**2 + 1e-4) for error in errors], rel=1e-4)


def test_a_run_can_start_from_weights(tmp_path: Path) -> None:
    model = ATTCR(ATTCRConfig(**CONFIG))  # type: ignore[arg-type]
    save_model(model, tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    task = RestorationTask(config=CONFIG, start_from=str(tmp_path / "w.safetensors"))
    assert torch.equal(task.network.embed.weight, model.embed.weight)
    with pytest.raises(ConfigError, match="start_from"):
        RestorationTask(config={"dim": 16}, start_from=str(tmp_path / "w.safetensors"))


def planes(spec: InputSpec, there: list[int], size: int = 4) -> torch.Tensor:
    """Inputs (1, S, H, W) of which these bands are there; of other dates the left half is the gap."""
    inputs = torch.zeros(1, len(spec.slots), size, size)
    inputs[:, [spec.positions([f"present:{spec.outputs[band]}"])[0] for band in there]] = 1
    if spec.corrects_references:
        inputs[:, spec.positions(["mask:gap"]), :, : size // 2] = 1
    return inputs


def given(inputs: torch.Tensor, clear: float) -> Sample:
    return {"inputs": inputs, "clear": torch.full((1, 13, 4, 4), clear), "masks": {}, "name": "x"}


def test_the_likelihood_is_least_where_the_expected_error_is_the_error() -> None:
    batch = given(planes(SPEC, list(range(13))), 0.0)

    def at(u: float, **parts: float) -> float:
        out = torch.cat([torch.full((1, 13, 4, 4), 0.05), torch.full((1, 13, 4, 4), u)], 1)
        return float(SpreadLoss(**{"least": 2e-4, "limits": (-7.0, 1.0), **parts})(out, batch, SPEC))  # type: ignore[arg-type]

    best = math.log(0.05) + 3  # u is the logarithm plus 3
    assert at(best) < min(at(best - 0.2), at(best + 0.2))
    assert at(best, likelihood=0.0) == pytest.approx(0.05)
    assert at(best, likelihood=0.0, log_mse=0.5) == pytest.approx(0.05 + 0.5 * math.log(0.05**2 + 2e-5))
    assert at(best, likelihood=1.0) == pytest.approx(0.05 + 0.0502 / 0.05 + math.log(0.05))
    assert at(-20.0, likelihood=1.0) == pytest.approx(0.05 + 0.0502 * math.exp(7) - 7)
    assert at(20.0, likelihood=1.0) == pytest.approx(0.05 + 0.0502 / math.e + 1)


def test_the_likelihood_does_not_move_the_bands() -> None:
    batch = given(planes(SPEC, [1, 2]), 0.2)
    out = torch.zeros(1, 26, 4, 4, requires_grad=True)
    slopes = []
    for weight in (0.0, 1.0):
        (slope,) = torch.autograd.grad(SpreadLoss(likelihood=weight)(out, batch, SPEC), out)
        slopes.append(slope)
    assert torch.equal(slopes[0][:, :13], slopes[1][:, :13])
    assert not slopes[0][:, 13:].any()
    assert slopes[1][:, 14:16].all()


@pytest.mark.parametrize(("spec", "columns"), [(SPEC, 4), (OTHER_DATES, 2)])
def test_only_bands_that_are_there_count_and_of_other_dates_the_gap(spec: InputSpec, columns: int) -> None:
    there, loss = [0, 4, 12], SpreadLoss(likelihood=0.0)
    batch = given(planes(spec, there), 0.3)
    out = torch.zeros(1, 26, 4, 4)
    out[:, there, :, :columns] = 0.3
    assert float(loss(out, batch, spec)) == 0
    assert float(error_left(out, batch, spec)) == 0
    out[:, 4, 0, 0] = 0.9
    assert float(loss(out, batch, spec)) == pytest.approx(0.6 / (3 * 4 * columns))
    assert float(error_left(out, batch, spec)) == pytest.approx(0.6 / (0.3 * 3 * 4 * columns))


def test_each_image_counts_the_same() -> None:
    few, many = planes(SPEC, [3]), planes(SPEC, list(range(13)))
    clear = torch.zeros(2, 13, 4, 4)
    batch: Sample = {"inputs": torch.cat([few, many]), "clear": clear, "masks": {}, "name": "x"}
    out = torch.zeros(2, 26, 4, 4)
    out[0] = 0.4
    assert float(SpreadLoss(likelihood=0.0)(out, batch, SPEC)) == pytest.approx(0.2)


def test_the_error_left_is_relative_to_the_input() -> None:
    batch = given(planes(SPEC, [2]), 0.5)
    batch["inputs"][:, 2] = 0.9
    out = torch.full((1, 26, 4, 4), 0.6)
    assert float(error_left(out, batch, SPEC)) == pytest.approx(0.25)
    batch["inputs"][:, 2] = 0.5  # nothing to do, and nothing by which to divide
    assert math.isfinite(float(error_left(out, batch, SPEC)))


def test_a_last_layer_of_zeros_gives_the_input_back() -> None:
    task = RestorationTask(config=CONFIG, zero_output=True)
    image = torch.rand(1, 3, 16, 16)
    assert torch.equal(task(image), image)


ONE_STEP = """
import sys, torch
from dataclasses import asdict
from attcr.networks.attcr import ATTCRConfig
from attcr.train.task import RestorationTask
from fake_scenes import peak_bytes

size, preset, recompute = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "recompute"
task = RestorationTask(config=asdict(ATTCRConfig.preset(preset)), checkpoint_blocks=recompute)
optimizer = torch.optim.AdamW(task.parameters())
cloudy, clear = torch.rand(2, 1, 3, size, size)
with torch.autocast("cpu", torch.bfloat16):
    loss = task.loss(task(cloudy), clear)
loss.backward()
optimizer.step()
print(peak_bytes())
"""


def peak_of_a_step(size: int, preset: str, recompute: str) -> int:
    command = [sys.executable, "-c", ONE_STEP, str(size), preset, recompute]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


@pytest.mark.nightly
def test_recomputed_blocks_take_less_memory() -> None:
    assert peak_of_a_step(256, "tiny", "recompute") < 0.8 * peak_of_a_step(256, "tiny", "keep")


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["keep", "recompute"])
def test_a_step_of_the_rice2_network_at_512_fits_in_12_gib(recompute: str) -> None:
    peak = peak_of_a_step(512, "rice2", recompute)
    print(f"{recompute}: {peak / 2**30:.2f} GiB")
    assert peak < 12 * 2**30
