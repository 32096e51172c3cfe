"""The notebooks of docs/notebooks run on real pairs, and compute what they say."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import torch
from PIL import Image

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.data.dates import DatedImage, find_sen12mscr
from attcr.evaluate import PROTOCOLS

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel: pip install 'attcr[dev]'")

pytestmark = pytest.mark.nightly
NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
THIN = ("ROIs1868_summer_102_p500", "ROIs2017_winter_102_p926", "sample_581", "sample_6780", "sample_746")
"""Pairs of SEN12MS-CR whose cloud is thin."""
SIZE = 96


def _write(path: Path, image: DatedImage) -> None:
    values = image.read(S2_L1C_BANDS)[:, 64 : 64 + SIZE, 64 : 64 + SIZE]
    place = {"crs": "EPSG:32633", "transform": rasterio.transform.from_origin(5e5, 5.4e6, 10, 10)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with rasterio.open(
        path, "w", driver="GTiff", count=len(values), height=SIZE, width=SIZE, dtype="uint16", **place
    ) as raster:
        raster.write(values)
        raster.descriptions = S2_L1C_BANDS


@pytest.fixture
def folder(shared_data: Path, tmp_path: Path) -> Path:
    """A folder as the notebooks want it: small pieces of real pairs."""
    for pair in find_sen12mscr(shared_data / "s2" / "pairs_sen12mscr"):
        if pair.name in THIN:
            _write(tmp_path / "pairs" / "cloudy" / f"{pair.name}.tif", pair.cloudy)
            _write(tmp_path / "pairs" / "clear" / f"{pair.name}.tif", pair.clear[0])
    return tmp_path


def run(name: str, folder: Path, wanted: str) -> Any:
    """Run a notebook in a folder; give the value of an expression at its end."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({wanted}))"))
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(book, folder / f"{name}.ipynb")  # to look at
    return json.loads(book.cells.pop().outputs[0].text)


def planes(path: Path, *bands: int) -> np.ndarray:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(bands), np.float64)


def test_cloud_is_removed_and_ndvi_comes_nearer_to_the_clear_date(folder: Path) -> None:
    told = run("remove-cloud-ndvi", folder, '{"before": error_before, "after": error_after, "name": NAME}')
    (quality,) = planes(folder / "restored_quality.tif", 1)
    under = (quality == 2) | (quality == 4)
    assert under.mean() > 0.2
    index = {}
    for side in ("pairs/cloudy", "pairs/clear", ""):
        red, nir = planes(folder / side / (f"{told['name']}.tif" if side else "restored.tif"), 4, 8)
        index[side] = (nir - red) / (nir + red)
    for key, side in (("before", "pairs/cloudy"), ("after", "")):
        assert told[key] == pytest.approx(np.abs(index[side] - index["pairs/clear"])[under].mean(), rel=1e-4)
    assert told["after"] < 0.7 * told["before"]
    cloudy = planes(folder / "pairs" / "cloudy" / f"{told['name']}.tif", *range(1, 14))
    restored = planes(folder / "restored.tif", *range(1, 14))
    np.testing.assert_array_equal(restored[:, quality == 1], cloudy[:, quality == 1])


def test_training_on_own_pairs_makes_weights_that_score_better_on_what_they_never_saw(folder: Path) -> None:
    scores = run("train-on-own-pairs", folder, "scores")
    seen, unseen = (np.asarray(Image.open(folder / half / "cloudy" / f"{THIN[0]}.png")) for half in ("mine", "other"))
    assert seen.shape == unseen.shape == (SIZE // 2, SIZE, 3)
    red = planes(folder / "pairs" / "cloudy" / f"{THIN[0]}.tif", 4)[0]
    np.testing.assert_allclose(np.concatenate([seen, unseen])[..., 0], (red / 3500).clip(0, 1) * 255, atol=0.5)
    assert scores["weights"] > max(scores["rgb-thin"], scores["input copied"]) + 1
    assert scores["input copied"] == pytest.approx(psnr(folder / "other", "cloudy", THIN), abs=1e-3)


def psnr(root: Path, side: str, names: tuple[str, ...]) -> float:
    """The mean PSNR of pictures by its formula."""
    found = []
    for name in names:
        one, clear = (np.asarray(Image.open(root / kind / f"{name}.png")) / 255 for kind in (side, "clear"))
        found.append(-10 * np.log10(np.mean((one - clear) ** 2)))
    return float(np.mean(found))


def test_two_models_are_scored_under_three_protocols(folder: Path) -> None:
    told = run("compare-models", folder, 'report["protocols"]')
    assert list(told) == ["att-cr", "t-cloud", "cmnet-y"]
    (folder / "pictures" / "s2-thin").symlink_to(folder / "s2-thin")
    for name, side in (("input copied", "cloudy"), ("s2-thin", "s2-thin")):
        scores = told["att-cr"]["methods"][name]
        assert scores["psnr"]["mean"] == pytest.approx(psnr(folder / "pictures", side, THIN), abs=1e-3)
    means = {rule: told[rule]["methods"]["s2-thin"] for rule in told}
    assert means["att-cr"]["psnr"]["mean"] > told["att-cr"]["methods"]["input copied"]["psnr"]["mean"] + 1
    assert len({round(scores["ssim"]["mean"], 4) for scores in means.values()}) == 3
    image, clear = (
        torch.from_numpy(np.asarray(Image.open(folder / side / f"{THIN[0]}.png")) / np.float32(255)).permute(2, 0, 1)
        for side in ("s2-thin", "pictures/clear")
    )
    with (folder / "report" / "images-cmnet-y.csv").open(newline="") as file:
        rows = {Path(row["name"]).stem: float(row["s2-thin: psnr"]) for row in csv.DictReader(file)}
    assert rows[THIN[0]] == pytest.approx(PROTOCOLS["cmnet-y"].score(image, clear)["psnr"], abs=1e-3)
