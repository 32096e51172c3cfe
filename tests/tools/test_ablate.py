"""A comparison of variants, from its settings to its table."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from benchmarks.paper import ablate as module
from benchmarks.paper.ablate import Variant, ablate
from benchmarks.paper.ablations import AblationConfig

from attcr.data import PairFolder
from attcr.errors import ConfigError
from attcr.evaluate import PROTOCOLS
from attcr.networks.attcr import ATTCRConfig
from attcr.train.task import RestorationTask
from fakes import make_pairs

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
VARIANTS = "[{name: triangular}, {name: swin, attention: swin}, {name: no-gate, gate: false}]"


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    make_pairs(tmp_path / "pairs", ("cloudy", "clear"), [f"t{i}" for i in range(6)] + ["v0", "v1"])
    return [
        f"--out={tmp_path / 'out'}",
        "--network={dim: 8, blocks: [1, 1, 1, 1, 1], heads: [2, 2, 2, 2, 2]}",
        "--data.sources=[{dataset: pairs, hold_out: [v]}]",
        f"--data.root={tmp_path / 'pairs'}",
        *("--data.crop=16", "--data.batch_size=2", "--data.workers=0"),
        *("--trainer.max_steps=2", "--trainer.accelerator=cpu", "--seeds=[0, 1]"),
    ]


def read(table: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(table.with_name("ablation.json").read_text())
    return content


def test_a_comparison_is_trained_written_and_not_trained_twice(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    table = ablate([*settings, f"--variants={VARIANTS}"], say=said.append)
    assert len(said) == 6
    assert said[0].startswith("triangular, seed 0: ")
    content = read(table)
    triangular, swin, no_gate = content["variants"]
    assert no_gate["parameters"] < triangular["parameters"] < swin["parameters"]
    assert triangular["multiply_adds"] > triangular["multiply_adds_paper"]
    assert swin["multiply_adds"] == swin["multiply_adds_paper"]
    assert [run["seed"] for run in swin["runs"]] == [0, 1]
    assert swin["psnr"]["mean"] == pytest.approx(sum(run["psnr"] for run in swin["runs"]) / 2)
    first, second = (run["psnr"] for run in swin["runs"])
    assert swin["psnr"]["sd"] == pytest.approx(abs(first - second) / 2**0.5)
    gains = [a["psnr"] - b["psnr"] for a, b in zip(swin["runs"], triangular["runs"], strict=True)]
    assert swin["psnr_gain"]["mean"] == pytest.approx(sum(gains) / 2)
    assert all(run["step_s"] > 0 and 0 < run["ssim"] <= 1 for run in swin["runs"])
    assert len({round(variant["psnr"]["mean"], 6) for variant in content["variants"]}) == 3
    text = table.read_text()
    assert f"| swin | {swin['parameters']:,} | {swin['multiply_adds'] / 1e9:.2f} |" in text
    assert "2 steps of 2 crops (16 x 16 px)" in text
    assert f"{100 * 2 * 2 * 16**2 / (37_000 * 16 * 256**2):.2g} % of the pixels" in text

    held = PairFolder(tmp_path / "pairs" / "cloudy", tmp_path / "pairs" / "clear", names=["v0", "v1"])
    copied = [PROTOCOLS["att-cr"].score(pair["inputs"], pair["clear"])["psnr"] for pair in (held[0], held[1])]
    assert content["budget"]["input_copied"]["psnr"] == pytest.approx(sum(copied) / 2, abs=1e-4)

    (tmp_path / "out" / "runs" / "swin-seed1.json").unlink()  # as if it had been stopped before this run
    trained: list[tuple[str, int]] = []
    plain = module._train

    def watched(config: ATTCRConfig, seed: int, ready: Any) -> dict[str, float]:
        trained.append((type(config).__name__, seed))
        return plain(config, seed, ready)

    monkeypatch.setattr(module, "_train", watched)
    again = read(ablate([*settings, f"--variants={VARIANTS}"]))
    assert trained == [("AblationConfig", 1)]
    assert again["variants"][1]["psnr"] == swin["psnr"]  # the same seed gives the same network, whatever ran before

    smaller = ["--variants=[{name: triangular}]", "--seeds=[0]", "--trainer.max_steps=1"]
    assert read(ablate([*settings, *smaller]))["variants"][0]["psnr"]["sd"] is None
    assert trained[1:] == [("ATTCRConfig", 0)]  # another budget is another run


def test_a_comparison_that_is_terminated_does_not_end_as_if_it_were_whole(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = RestorationTask.training_step

    def terminated(self: RestorationTask, batch: Any, batch_idx: int) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, batch, batch_idx)

    monkeypatch.setattr(RestorationTask, "training_step", terminated)
    with pytest.raises(SystemExit) as stop:
        ablate([*settings, "--variants=[{name: triangular}]"])
    assert stop.value.code == 128 + signal.SIGTERM
    assert not (tmp_path / "out" / "ablation.md").exists()
    assert not list((tmp_path / "out").rglob("*.json"))


def test_the_shipped_comparison_has_every_attention_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = RuntimeError("before training")
    seen: list[tuple[ATTCRConfig, Any]] = []

    def no_training(config: ATTCRConfig, seed: int, ready: Any) -> dict[str, float]:
        seen.append((config, ready))
        raise stop

    monkeypatch.setattr(module, "_train", no_training)
    with pytest.raises(RuntimeError, match="before training"):
        ablate(["--config", "small-cpu", "--data.root", "/nowhere", "--out", "/nowhere"])
    ((config, ready),) = seen
    assert config.dim == ready.network.dim == 8
    kinds = {variant.attention for variant in ready.variants}
    assert kinds == {"triangular", "linear", "mdta", "efficient", "focused-taylor", "swin", "linear-sra"}


def test_a_variant_changes_only_what_it_names() -> None:
    base = ATTCRConfig.preset("small")
    assert Variant("same").config(base) == base
    assert Variant("elu", attention="linear").config(base).attention == "linear"
    assert not Variant("no-gate", gate=False).config(base).gate
    assert Variant("one", scales=[[3]] * 5).config(base).scales == ((3,),) * 5
    swapped = Variant("mdta", attention="mdta").config(base)
    assert isinstance(swapped, AblationConfig)
    assert (swapped.replacement, swapped.dim, swapped.scales) == ("mdta", base.dim, base.scales)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--variants=[]", "at least one"),
        ("--variants=[{name: a}, {name: a, gate: false}]", "no two"),
        ("--seeds=[1, 1]", "no two"),
        ("--network.gate=false", "no effect"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(settings: list[str], change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ablate([*settings, "--variants=[{name: a}]", change])


def test_a_name_that_is_no_file_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        Variant("../up")


def test_a_run_without_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one step"):
        module.Budget(max_steps=0)


def test_the_task_trains_the_replacement() -> None:
    config = {"dim": 8, "blocks": [1] * 5, "heads": [2] * 5, "replacement": "linear-sra"}
    names = [name for name, _ in RestorationTask("ablation", config).named_parameters()]
    assert "network.stages.0.0.attention.reduce.1.weight" in names
