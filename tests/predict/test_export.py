"""Export: what is written, and that a file that is wrong gets no name."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr.cli import app
from attcr.errors import ConfigError, WeightsError
from attcr.files import sha256
from attcr.predict import open_predictor
from small_networks import WITH_SPREAD, image, relative, save_small

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from attcr.predict.export import TOLERANCE, compare, export


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("weights"), spec=WITH_SPREAD)


def test_a_file_gives_what_torch_gives_and_says_where_it_is_from(weights: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.onnx"
    told = CliRunner().invoke(app, ["export", str(weights), str(target)])
    assert told.exit_code == 0, told.output
    assert sha256(target) in told.output
    assert list(tmp_path.iterdir()) == [target]
    assert sha256(weights) in target.read_bytes().decode(errors="replace")
    x = image(3, 30, 41, 3)
    assert relative(open_predictor(target)(x), open_predictor(weights)(x)) < TOLERANCE


def test_a_file_is_checked_at_three_sizes_and_two_batches(weights: Path) -> None:
    torch, seen = open_predictor(weights), []

    class Near:
        spec, identity = torch.spec, torch.identity

        def __call__(self, x: np.ndarray) -> np.ndarray:
            seen.append(x.shape)
            y = torch(x)
            return y + np.float32(5e-7 * y.std())

    error, largest = compare(Near(), torch, Path("x"))
    assert seen == [(b, 3, *size) for size in ((8, 12), (67, 53), (96, 128)) for b in (1, 3)]
    assert 3e-7 < error < 8e-7
    assert 0 < largest < 1e-6


@pytest.mark.parametrize("wrong", ["offset", "nan", "one size"])
def test_a_file_that_differs_gets_no_name(
    wrong: str, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, whichever size the new one is wrong at."""

    class Off:
        def __init__(self, *_: object, **__: object) -> None:
            self.right = open_predictor(weights)
            self.spec, self.identity = self.right.spec, self.right.identity

        def __call__(self, x: np.ndarray) -> np.ndarray:
            y = self.right(x)
            if wrong == "nan":
                y[0, 0, 0, 0] = np.nan
            elif wrong == "offset" or x.shape == (3, 3, 96, 128):
                y += np.float32(1e-5)
            return y

    monkeypatch.setattr("attcr.predict.export.OnnxRuntimePredictor", Off)
    target = tmp_path / "net.onnx"
    target.write_text("what was there")
    with pytest.raises(WeightsError, match=r"not written: for . x \d+ x \d+ it would differ from torch"):
        export(weights, target)
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_text() == "what was there"


def test_what_cannot_be_written_is_refused(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in .pb: name a file .onnx"):
        export(weights, tmp_path / "net.pb")
    with pytest.raises(ConfigError, match="is not a folder"):
        export(weights, tmp_path / "none" / "net.onnx")
    (tmp_path / "old.onnx").write_bytes(b"")
    with pytest.raises(ConfigError, match="is exported already"):
        export(tmp_path / "old.onnx", tmp_path / "net.onnx")
