"""A new data set and a new network are one entry and one class each: they train, are evaluated, and restore."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from attcr.bands.spec import InputSpec, Slot, band_slots
from attcr.cli import app
from attcr.data import DataSet
from attcr.data.pairs import Sample, Transform, make_sample, read_image
from attcr.networks import NETWORKS, Entry
from attcr.predict import open_predictor
from attcr.restore import restore_array
from attcr.train.run import train
from attcr.weights import load_model, read_header
from fakes import fake_image, make_pairs
from small_networks import Blend, BlendConfig

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

MEADOWS_SPEC = InputSpec(
    slots=(*band_slots(("red", "green", "blue")), Slot("mask:cloud")),
    outputs=("red", "green", "blue"),
    products=("rgb8", "picture"),
    gsd=(2.0, 2.0),
    removes=("thick",),
)
PARTS = {"train": ["t0", "t1", "t2", "t3"], "val": ["v0", "v1"], "test": ["e0", "e1"]}


class Meadows(torch.utils.data.Dataset[Sample]):
    """Pictures with a mask as a fourth plane of the input, and beside it."""

    spec = MEADOWS_SPEC

    def __init__(self, root: str | Path, part: str, *, transform: Transform | None = None, cache: bool = False) -> None:
        self.root, self.names, self.transform = Path(root), PARTS[part], transform

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        cloudy, clear = (read_image(self.root / side / f"{name}.png") / np.float32(255) for side in ("before", "after"))
        mask = (np.abs(cloudy - clear).max(0) > 0.1).astype(np.float32)
        sample = make_sample(np.concatenate([cloudy, mask[None]]), clear, name, None)
        sample["masks"] = {"cloud": torch.from_numpy(mask)}
        return sample if self.transform is None else self.transform(sample)


MEADOWS = DataSet(
    "meadows",
    "meadows with a mask",
    MEADOWS_SPEC,
    Meadows,
    "ROOT/before and ROOT/after",
)
NAMED = "test_new_entries:MEADOWS"
SOURCE = f"--data.sources=[{{dataset: '{NAMED}', root: meadows}}]"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(NETWORKS, "blend", Entry(BlendConfig, Blend))
    make_pairs(tmp_path / "meadows", ("before", "after"), [name for names in PARTS.values() for name in names])
    return tmp_path


def settings(root: Path, *more: str) -> list[str]:
    return [
        *(f"--trainer.default_root_dir={root / 'run'}", f"--data.root={root}", "--trainer.max_steps=2"),
        *("--data.crop=16", "--data.batch_size=2", "--data.workers=0", "--trainer.accelerator=cpu"),
        *("--trainer.num_sanity_val_steps=0", "--trainer.enable_progress_bar=false", "--trainer.log_every_n_steps=1"),
        *("--trainer.check_val_every_n_epoch=null", "--trainer.val_check_interval=2", *more),
    ]


def test_a_new_set_and_a_new_network_train_and_are_evaluated(root: Path) -> None:
    train(settings(root, "--model.network=blend", SOURCE))
    weights = root / "run" / "weights.safetensors"
    header = read_header(weights)
    assert (header.network, header.spec) == ("blend", MEADOWS_SPEC)
    assert header.provenance["steps"] == 2
    assert header.provenance["validation"]["val_psnr"] > 0
    assert "mask:cloud" in (root / "run" / "model-card.md").read_text()
    assert (root / "run" / "panels" / "step000002.png").exists()

    options = ["evaluate", "--data", NAMED, f"--root={root / 'meadows'}", f"--out={root / 'report'}"]
    result = CliRunner().invoke(app, [*options, "--weights", str(weights)])
    assert result.exit_code == 0, result.output
    report = json.loads((root / "report" / "report.json").read_text())
    assert report["made with"]["data"]["images"] == 2
    model = load_model(weights)
    sample = Meadows(root / "meadows", "test")[0]
    with torch.no_grad():
        error = (model(sample["inputs"][None])[0].clamp(0, 1) - sample["clear"]).square().mean()
    rows = [json.loads(line) for line in (root / "report" / "rows.jsonl").read_text().splitlines()[1:]]
    psnr = rows[0]["scores"]["weights"]["att-cr"]["psnr"]
    assert psnr == pytest.approx(-10 * float(error.log10()), abs=1e-4)


def test_the_network_of_the_house_trains_on_the_new_set(root: Path) -> None:
    more = ["--model.config.in_channels=4", "--model.config.dim=8", "--model.config.blocks=[1,1,1,1,1]"]
    train(settings(root, "--model.network=attcr", "--model.config={attention: linear}", *more, SOURCE))
    model = load_model(root / "run" / "weights.safetensors")
    assert (model.config.attention, model.config.dim, model.spec) == ("linear", 8, MEADOWS_SPEC)  # type: ignore[union-attr]


def test_the_new_network_trains_and_restores_pictures(root: Path) -> None:
    names = [name for part in ("train", "val") for name in PARTS[part]]
    make_pairs(root / "own", ("cloudy", "clear"), names)
    source = "--data.sources=[{dataset: pairs, root: own, hold_out: [v]}]"
    train(settings(root, "--model.network=blend", "--model.config.in_channels=3", source))
    weights = root / "run" / "weights.safetensors"
    predictor = open_predictor(weights)
    image = fake_image("x").transpose(2, 0, 1)[None].astype(np.float32) / 255
    with torch.no_grad():
        expected = load_model(weights)(torch.from_numpy(image)).numpy()
    np.testing.assert_array_equal(predictor(image), expected)
    restored = _restore(fake_image("x"), weights)
    assert restored.shape == (32, 32, 3)
    np.testing.assert_allclose(restored.transpose(2, 0, 1), (expected[0] * 255).clip(0, 255).round(), atol=1)


def _restore(image: np.ndarray, weights: Path) -> Any:
    """A picture (H, W, 3) restored whole, through the package's own walk."""
    return np.asarray(restore_array(image.transpose(2, 0, 1), weights).image).transpose(1, 2, 0)
