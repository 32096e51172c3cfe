"""The notebooks of docs/notebooks run in an empty folder on what comes with the package, and compute what they say."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import torch
from PIL import Image

from attcr.evaluate import PROTOCOLS

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
SAMPLE = "attcr-demo"
"""The folder that `run_demo` makes in a notebook's own."""


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_stored_notebook_shows_what_it_computed_and_nothing_went_wrong(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run it from its beginning"
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) or "<img" in str(output) for output in outputs)


def run(name: str, folder: Path, wanted: str, own: str) -> Any:
    """Run a notebook in an empty folder, using one of its own; give the value of an expression at its end."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({wanted}))"))
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    assert [path.name for path in folder.iterdir()] == [own]
    return json.loads(book.cells[-1].outputs[-1].text)


def planes(path: Path, *bands: int) -> np.ndarray:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(bands or None), np.float64)


@pytest.mark.nightly
def test_cloud_is_removed_and_reflectance_comes_nearer_to_the_clear_date(tmp_path: Path) -> None:
    told = run("remove-cloud-ndvi", tmp_path, "errors", "attcr-ndvi")
    folder = tmp_path / "attcr-ndvi"
    (quality,) = planes(folder / "clear_quality.tif")
    under, original = (quality == 2) | (quality == 4), quality == 1
    assert 0.3 < under.mean() < 0.7
    came, made, other = (
        planes(folder / name) for name in (f"{SAMPLE}/scene.tif", "clear.tif", f"{SAMPLE}/clear_date.tif")
    )
    fits = [np.polyfit(there[original], here[original], 1) for here, there in zip(came, other, strict=True)]
    truth = np.stack([np.polyval(fit, there) for fit, there in zip(fits, other, strict=True)])
    for name, image in (("before", came), ("after", made)):
        reflectance = np.abs(image - truth)[:, under].mean() / 1e4
        ndvi, of_truth = ((one[7] - one[3]) / (one[7] + one[3]) for one in (image, truth))
        assert told[name] == pytest.approx([reflectance, np.abs(ndvi - of_truth)[under].mean()], rel=1e-3)
    assert told["after"][0] < 0.4 * told["before"][0]
    assert told["after"][1] < told["before"][1]
    np.testing.assert_array_equal(made[:, original], came[:, original])


@pytest.mark.nightly
def test_a_drawn_cloud_is_filled_better_than_by_copying(tmp_path: Path) -> None:
    told = run("other-dates", tmp_path, "errors", "attcr-dates")
    folder = tmp_path / "attcr-dates"
    cloud = planes(folder / "mask.tif")[0] > 0
    truth, filled, other = (
        planes(folder / name) for name in (f"{SAMPLE}/clear_date.tif", "filled.tif", f"{SAMPLE}/restored.tif")
    )
    for name, image in (("copied", other), ("attcr", filled)):
        assert told[name] == pytest.approx(np.abs(image - truth)[:, cloud].mean() / 1e4, rel=1e-3)
    assert told["attcr"] < 0.6 * told["copied"]
    (quality,) = planes(folder / "filled_quality.tif")
    assert set(np.unique(quality[cloud])) == {6}


@pytest.mark.nightly
def test_a_cube_of_a_local_catalog_is_filled(tmp_path: Path) -> None:
    pytest.importorskip("odc.stac", reason="needs the extra cube")
    told = run("cube", tmp_path, '{"errors": errors, "shares": shares}', "attcr-cube")
    assert len(told["errors"]) == 4
    assert max(told["errors"]) < 0.01
    drawn, with_rim = (np.pi * radius**2 / 256**2 for radius in (50, 58))
    assert all(0.7 * drawn < share < 1.4 * with_rim for share in told["shares"]), (told["shares"], drawn, with_rim)


@pytest.mark.nightly
def test_training_on_own_pairs_makes_weights_that_score_better_on_what_they_never_saw(tmp_path: Path) -> None:
    scores = run("train-on-own-pairs", tmp_path, "scores", "attcr-train")
    folder = tmp_path / "attcr-train"
    names = {half: sorted(path.name for path in (folder / half / "cloudy").iterdir()) for half in ("mine", "other")}
    assert [len(names[half]) for half in names] == [8, 8]
    assert not set(names["mine"]) & set(names["other"])
    seen = np.asarray(Image.open(folder / "mine" / "cloudy" / "000-064.png"))
    red = planes(folder / SAMPLE / "scene.tif", 4)[0][:64, 64:128]
    np.testing.assert_allclose(seen[..., 0], (red / 3558).clip(0, 1) * 255, atol=0.5)
    assert scores["weights"] > max(scores["rgb-thin"], scores["input copied"])
    assert scores["input copied"] == pytest.approx(psnr(folder / "other", "cloudy"), abs=1e-3)


def psnr(root: Path, side: str) -> float:
    """The mean PSNR of pictures by its formula."""
    found = []
    for path in sorted((root / side).glob("*.png")):
        one, clear = (np.asarray(Image.open(root / kind / path.name)) / 255 for kind in (side, "clear"))
        found.append(-10 * np.log10(np.mean((one - clear) ** 2)))
    return float(np.mean(found))


@pytest.mark.nightly
def test_two_models_are_scored_under_three_protocols(tmp_path: Path) -> None:
    told = run("compare-models", tmp_path, 'report["protocols"]', "attcr-compare")
    folder = tmp_path / "attcr-compare"
    assert list(told) == ["att-cr", "t-cloud", "cmnet-y"]
    (folder / "pairs" / "s2-thin").symlink_to(folder / "s2-thin")
    for name, side in (("input copied", "cloudy"), ("s2-thin", "s2-thin")):
        scores = told["att-cr"]["methods"][name]
        assert scores["psnr"]["mean"] == pytest.approx(psnr(folder / "pairs", side), abs=1e-3)
    means = {rule: told[rule]["methods"]["s2-thin"] for rule in told}
    assert len({round(scores["ssim"]["mean"], 4) for scores in means.values()}) == 3
    image, clear = (
        torch.from_numpy(np.asarray(Image.open(side / "000-128.png")) / np.float32(255)).permute(2, 0, 1)
        for side in (folder / "s2-thin", folder / "pairs" / "clear")
    )
    with (folder / "report" / "images-cmnet-y.csv").open(newline="") as file:
        rows = {Path(row["name"]).stem: float(row["s2-thin: psnr"]) for row in csv.DictReader(file)}
    assert rows["000-128"] == pytest.approx(PROTOCOLS["cmnet-y"].score(image, clear)["psnr"], abs=1e-3)
