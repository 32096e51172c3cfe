"""Reports say what was measured, leave nothing out, and come out the same when a run is interrupted."""

import csv
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from attcr import ATTCR, ATTCRConfig, save_model
from attcr.bands.spec import ANY_BANDS, RICE2, SEN12MSCR, SEN12MSCR_OPTICAL, TRUE_COLOUR, InputSpec
from attcr.cli import app
from attcr.data import DATASETS, PairFolder, load_split
from attcr.data.sen12mscr import KINDS
from attcr.errors import ConfigError, DataError, DataNotFoundError, ShapeError
from attcr.evaluate import figures
from attcr.evaluate.protocols import IMAGE_PROTOCOLS, average
from attcr.evaluate.run import (
    COPY,
    MEAN_COLOUR,
    Benchmark,
    Method,
    evaluate,
    method_from_predictions,
    method_from_predictor,
    method_from_weights,
    open_benchmark,
)
from fakes import fake_image, fake_patch, make_pairs, make_sen12mscr, write_native, write_tif

NAMES = [f"image{n}" for n in range(8)]
HALF_CLEARED = Method(
    "half cleared", lambda sample, _: (sample["inputs"] + sample["clear"]) / 2, {"weights": "w", "sha256": "0"}
)

KILLED_AT_5 = """
import os, signal, sys
from attcr.evaluate.run import evaluate, method_from_weights, open_benchmark

def progress(done, total):
    if done == 5:
        os.kill(os.getpid(), signal.SIGKILL)

data, weights, out = sys.argv[1:]
evaluate(open_benchmark("pairs", data), [method_from_weights(weights)], ["att-cr", "cmnet-y"], out, progress=progress)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    make_pairs(folder, ("cloudy", "clear"), NAMES)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.log")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_report_holds_the_protocols_own_means_and_one_row_per_image(root: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark("pairs", root)
    report = evaluate(benchmark, [HALF_CLEARED], ["att-cr", "t-cloud"], tmp_path)
    samples = [benchmark.samples[index] for index in range(len(NAMES))]
    for name in ("att-cr", "t-cloud"):
        ours = average(
            IMAGE_PROTOCOLS[name].score(HALF_CLEARED.restore(sample, benchmark.spec), sample["clear"])
            for sample in samples
        )
        for key, mean in ours.items():
            entry = report["protocols"][name]["methods"]["half cleared"][key]
            assert entry["mean"] == pytest.approx(mean)
            assert entry["low"] < mean < entry["high"]
        with (tmp_path / f"images-{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == NAMES
        copied = IMAGE_PROTOCOLS[name].score(samples[3]["inputs"], samples[3]["clear"])
        assert float(rows[3]["input copied: psnr"]) == copied["psnr"]
        assert not any("att-cr" in column or "t-cloud" in column for column in rows[0])
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert (tmp_path / "figures" / "panels.png").exists()
    text = (tmp_path / "report.md").read_text()
    for expected in ("**half cleared**", "| input copied |", "| input's mean colour |", "split sha256 `", "sha256 `0`"):
        assert expected in text


@pytest.mark.nightly
def test_a_killed_run_goes_on_and_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    whole, broken, weights = tmp_path / "whole", tmp_path / "broken", tmp_path / "tiny.safetensors"
    save_model(ATTCR(ATTCRConfig.preset("tiny")), weights, spec=TRUE_COLOUR)
    evaluate(open_benchmark("pairs", root), [method_from_weights(weights)], ["att-cr", "cmnet-y"], whole)
    command = [sys.executable, "-c", KILLED_AT_5, str(root), str(weights), str(broken)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(command, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    rows = broken / "rows.jsonl"
    assert len(rows.read_text().splitlines()) == 1 + 5
    assert set(contents(broken)) == {"rows.jsonl"}
    rows.write_bytes(rows.read_bytes() + b'{"name": "image5", "sc')  # killed while writing
    scored: list[int] = []
    methods = [method_from_weights(weights)]

    def progress(done: int, total: int) -> None:
        scored.append(done)

    evaluate(open_benchmark("pairs", root), methods, ["att-cr", "cmnet-y"], broken, progress=progress)
    assert scored == [5, 6, 7, 8]
    assert contents(broken) == contents(whole)


def test_a_folder_of_another_evaluation_is_refused_with_what_differs(root: Path, tmp_path: Path) -> None:
    evaluate(open_benchmark("pairs", root), [COPY], ["att-cr"], tmp_path)
    with pytest.raises(ConfigError, match="differs in its methods and protocols: give another folder"):
        evaluate(open_benchmark("pairs", root), [HALF_CLEARED], ["cmnet-y"], tmp_path)
    rows = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text(rows[0] + rows[2] + rows[1])
    with pytest.raises(DataError, match="not hold the images in their order"):
        evaluate(open_benchmark("pairs", root), [COPY], ["att-cr"], tmp_path)


def test_methods_that_cannot_be_told_apart_or_change_the_size_are_refused(root: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark("pairs", root)
    with pytest.raises(ConfigError, match="two methods have the same name"):
        evaluate(benchmark, [HALF_CLEARED, Method("half cleared", HALF_CLEARED.restore)], ["att-cr"], tmp_path / "a")
    cut = Method("cut", lambda sample, _: sample["inputs"][:, 1:])
    with pytest.raises(ShapeError, match=r"cut gave \(3, 31, 32\) for image0, whose reference is \(3, 32, 32\)"):
        evaluate(benchmark, [cut], ["att-cr"], tmp_path / "b")


def test_images_are_broken_down_by_cover_by_the_inputs_psnr_and_by_kind_of_pixel(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["thick", "thin"])
    clear = {name: np.asarray(Image.open(tmp_path / "clear" / f"{name}.png")).astype(int) for name in ("thick", "thin")}
    thick = clear["thick"].copy()
    thick[:16] = np.where(thick[:16] < 128, thick[:16] + 100, thick[:16] - 100)
    thin = np.where(clear["thin"] < 128, clear["thin"] + 2, clear["thin"] - 2)
    for name, image in (("thick", thick), ("thin", thin)):
        Image.fromarray(image.astype(np.uint8)).save(tmp_path / "cloudy" / f"{name}.png")
    report = evaluate(open_benchmark("pairs", tmp_path), [COPY], ["att-cr"], tmp_path / "out")
    result = report["protocols"]["att-cr"]
    by_psnr = {label: entry["images"] for label, entry in result["by the input's PSNR"].items()}
    assert by_psnr == {"below 15 dB": 1, "15 to 20 dB": 0, "20 to 25 dB": 0, "25 to 35 dB": 0, "35 dB and above": 1}
    by_cover = {label: entry["images"] for label, entry in result["by cloud cover"].items()}
    assert by_cover["below 10 %"] == by_cover["50 to 70 %"] == 1
    assert result["by cloud cover"]["50 to 70 %"]["methods"]["input copied"]["psnr"] == pytest.approx(
        10 * math.log10(255**2 / (100**2 / 2))
    )
    pixels = report["pixels"]["input copied"]
    assert pixels["cloudy"] == {
        "pixels": 512,
        "mae": pytest.approx(100 / 255),
        "psnr": pytest.approx(20 * math.log10(2.55)),
    }
    assert pixels["clear"]["mae"] == pytest.approx(2 / 255 * 2 / 3)  # the thin half of two images, and the untouched


def test_images_are_broken_down_by_the_references_contrast(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["plain", "sea", "wavy"])
    step = np.zeros((20, 20, 3), np.uint8)
    step[:, :10] = 8  # 8 of 255 is above the limit of 0.02, 5 is below
    sea = step // 8 * 5
    sea[0, 0] = 255  # one ship
    plain = np.zeros_like(step)
    plain[..., 0], plain[:, :10, 1], plain[:, 10:, 2] = 9, 9, 9  # its bands differ, their mean does not
    for name, image in (("wavy", step), ("sea", sea), ("plain", plain)):
        for side in ("cloudy", "clear"):
            Image.fromarray(image + (50 if side == "cloudy" else 0)).save(tmp_path / side / f"{name}.png")
    report = evaluate(open_benchmark("pairs", tmp_path), [COPY], ["att-cr"], tmp_path / "out")
    by_contrast = report["protocols"]["att-cr"]["by the reference's contrast"]
    assert {label: entry["images"] for label, entry in by_contrast.items()} == {"below 0.02": 2, "0.02 and above": 1}
    with (tmp_path / "out/images-att-cr.csv").open() as file:
        contrasts = {row["name"]: float(row["contrast"]) for row in csv.DictReader(file)}
    assert contrasts == {"plain": 0, "sea": pytest.approx(5 / 255), "wavy": pytest.approx(8 / 255)}
    assert "| 0.02 and above | 1 | " in (tmp_path / "out/report.md").read_text()


def test_the_mean_of_eight_views_is_a_method_of_its_own(root: Path, tmp_path: Path) -> None:
    weights = tmp_path / "net.safetensors"
    save_model(ATTCR(ATTCRConfig.preset("tiny")), weights, spec=TRUE_COLOUR)
    benchmark = open_benchmark("pairs", root)
    one, eight = (method_from_weights(weights, average_views=averaged) for averaged in (False, True))
    assert (one.name, eight.name) == ("net", "net, mean of eight views")
    assert one.source != eight.source
    sample = benchmark.samples[0]
    single, mean = (np.asarray(method.restore(sample, benchmark.spec)) for method in (one, eight))
    turned = [
        np.flip(
            np.rot90(
                one.restore({**sample, "inputs": torch.rot90(seen, turns, (1, 2))}, benchmark.spec), -turns, (1, 2)
            ),
            flips,
        )
        for flips in ((), (2,))
        for seen in (sample["inputs"].flip(flips),)
        for turns in range(4)
    ]
    np.testing.assert_allclose(mean, np.mean(turned, axis=0), atol=1e-6, rtol=0)
    assert abs(mean - single).max() > 1e-4
    command = ["evaluate", "--data", "pairs", "--root", str(root), "--weights", str(weights), "--eight-views"]
    told = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out"), "--json"])
    methods = json.loads(told.stdout)["protocols"]["att-cr"]["methods"]
    assert list(methods) == ["net", "net, mean of eight views", "input copied", "input's mean colour"]
    assert methods["net"]["psnr"]["mean"] != methods["net, mean of eight views"]["psnr"]["mean"]


def test_stored_predictions_are_read_as_integers_or_floats_and_missing_ones_named(root: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark("pairs", root)
    folder = tmp_path / "peer"
    for name in NAMES[:4]:
        write_tif(folder / f"{name}.tif", fake_image(name).transpose(2, 0, 1).astype(np.float32) / 255 + 0.01)
    with pytest.raises(DataNotFoundError, match=r"4 of 8 images have no prediction in .*: image4, image5"):
        method_from_predictions(folder, benchmark)
    for name in NAMES[4:]:
        Image.fromarray(fake_image(name)).save(folder / f"{name}.png")
    method = method_from_predictions(folder, benchmark)
    report = evaluate(benchmark, [method], ["standard"], tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()[1:]]
    assert rows[0]["scores"]["peer"]["standard"]["psnr"] == pytest.approx(40, abs=1e-3)
    assert rows[7]["scores"]["peer"]["standard"]["psnr"] == math.inf
    assert report["protocols"]["standard"]["methods"]["peer"]["psnr"]["mean"] is None  # JSON has no infinity


def test_thirteen_bands_are_scored_as_digital_numbers_over_10000(tmp_path: Path) -> None:
    sources = {kind: tmp_path / f"{kind}.tif" for kind in KINDS}
    for seed, kind in enumerate(KINDS):
        write_tif(sources[kind], np.clip(fake_patch(kind, seed, size=24), -40, 9000))
    regions = load_split("sen12mscr", "test").names
    make_sen12mscr(tmp_path / "root", {region: [1] for region in regions}, sources)
    benchmark = open_benchmark("sen12mscr", tmp_path / "root")
    report = evaluate(benchmark, [COPY], ["att-cr-sen12", "uncrtaints"], tmp_path / "out")
    cloudy, clear = (np.clip(fake_patch(kind, seed, size=24), -40, 9000) for seed, kind in enumerate(KINDS) if seed)
    squared = np.mean((cloudy / 1e4 - clear / 1e4) ** 2)
    mean = report["protocols"]["att-cr-sen12"]["methods"]["input copied"]["psnr"]["mean"]
    assert mean == pytest.approx(-10 * math.log10(squared), abs=1e-4)
    assert report["protocols"]["att-cr-sen12"]["paper"]["psnr"] == 29.97
    assert report["protocols"]["uncrtaints"]["paper"] is None
    assert any("24x24" in note for note in report["protocols"]["att-cr-sen12"]["notes"])


def test_the_papers_row_stands_beside_ours_with_a_note_where_the_split_differs(root: Path, tmp_path: Path) -> None:
    folder = PairFolder(root / "cloudy", root / "clear")
    report = evaluate(
        Benchmark(folder, DATASETS["rice2"], "val", "0"), [COPY], ["att-cr", "cmnet-y", "att-cr-sen12"], tmp_path
    )
    text = (tmp_path / "report.md").read_text()
    assert "| ATT-CR (paper) | 36.72 | 0.9183 | 0.0149 | 1.160 |" in text
    notes = " ".join(report["protocols"]["att-cr"]["notes"])
    for expected in ("test part; this is val", "another split", "512x512; these are 32x32"):
        assert expected in notes
    assert report["protocols"]["cmnet-y"]["paper"] is None
    assert report["protocols"]["att-cr-sen12"]["notes"] == [
        "the protocol was published for 13 bands; these images have 3."
    ]
    assert DATASETS["tcloud"].paper is not None
    assert not DATASETS["tcloud"].paper.split


def test_a_black_pixel_leaves_its_image_out_of_the_mean_angle_and_the_report_says_so(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["a", "b", "c"])
    black = np.array(Image.open(tmp_path / "clear" / "b.png"))
    black[0, 0] = 0
    Image.fromarray(black).save(tmp_path / "clear" / "b.png")
    report = evaluate(open_benchmark("pairs", tmp_path), [COPY], ["att-cr"], tmp_path / "out")
    result = report["protocols"]["att-cr"]
    assert result["methods"]["input copied"]["sam"]["images"] == 2
    assert result["methods"]["input copied"]["psnr"]["images"] == 3
    assert (
        "SAM leaves out images with a black pixel, of 3: 1 of input copied, 1 of input's mean colour. "
        "Between methods it is then of different images." in result["notes"]
    )


def test_weights_are_run_on_whole_images_and_known_by_their_sha256(root: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ATTCR(ATTCRConfig.preset("tiny")).eval()
    digest = save_model(model, tmp_path / "mine.safetensors", spec=TRUE_COLOUR)
    options = ["--data", "pairs", "--root", str(root), "--weights", str(tmp_path / "mine.safetensors")]
    result = CliRunner().invoke(app, ["evaluate", *options, "--protocol", "t-cloud", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["subject"] == "mine"
    assert report["made with"]["methods"]["mine"]["sha256"] == digest
    assert f"sha256 `{digest}`" in (tmp_path / "out" / "report.md").read_text()
    sample = open_benchmark("pairs", root).samples[2]
    with torch.inference_mode():
        scores = IMAGE_PROTOCOLS["t-cloud"].score(model(sample["inputs"][None])[0], sample["clear"])
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()[1:]]
    assert rows[2]["scores"]["mine"]["t-cloud"] == pytest.approx(scores, abs=1e-6)


def test_the_command_prints_the_means_and_refuses_to_guess(root: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    options = ["evaluate", "--data", "pairs", "--root", str(root), "--out", str(tmp_path / "out")]
    result = run(app, [*options, "--baseline", "mean-colour", "--protocol", "att-cr"])
    assert result.exit_code == 0, result.output
    assert "att-cr: PSNR input's mean colour " in result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["subject"] == MEAN_COLOUR.name
    for wrong in ([], ["--baseline", "nothing"], ["--baseline", "copy", "--predictions", str(root / "clear")]):
        assert isinstance(run(app, [*options, *wrong]).exception, ConfigError)


class Drawn:
    """A predictor without a network: each band it gives is the one it takes, plus its place."""

    identity: Mapping[str, str] = {"weights_sha256": "12", "backend": "drawn"}

    def __init__(self, spec: InputSpec) -> None:
        self.spec, self.seen = spec, []  # type: tuple[InputSpec, list[np.ndarray]]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(x)
        return x[:, self.spec.optical] + np.arange(len(self.spec.outputs), dtype=np.float32).reshape(1, -1, 1, 1)


def patches(folder: Path) -> Path:
    sources = {kind: folder / f"{kind}.tif" for kind in KINDS}
    for seed, kind in enumerate(KINDS):
        write_tif(sources[kind], fake_patch(kind, seed, size=24))
    make_sen12mscr(folder / "root", {region: [1] for region in load_split("sen12mscr", "test").names}, sources)
    return folder / "root"


def test_planes_are_picked_and_bands_given_back_by_name(tmp_path: Path) -> None:
    benchmark = open_benchmark("sen12mscr", patches(tmp_path))
    sample = benchmark.samples[0]
    optical = Drawn(SEN12MSCR_OPTICAL)
    restored = method_from_predictor(optical, "optical").restore(sample, benchmark.spec)
    np.testing.assert_array_equal(optical.seen[0][0], sample["inputs"][2:].numpy())
    np.testing.assert_array_equal(restored, sample["inputs"][2:] + torch.arange(13.0).view(13, 1, 1))

    names = SEN12MSCR.outputs[::-1]
    turned = replace(SEN12MSCR_OPTICAL, slots=SEN12MSCR_OPTICAL.slots[::-1], outputs=names)
    drawn = Drawn(turned)
    restored = method_from_predictor(drawn, "turned").restore(sample, benchmark.spec)
    np.testing.assert_array_equal(drawn.seen[0][0], sample["inputs"][2:].numpy()[::-1])
    np.testing.assert_array_equal(restored, sample["inputs"][2:] + torch.arange(12.0, -1, -1).view(13, 1, 1))

    reference = replace(SEN12MSCR.slots[0], name="reference:red", optional=True)
    more = Drawn(replace(SEN12MSCR, slots=(reference, *SEN12MSCR.slots)))
    method_from_predictor(more, "more").restore(sample, benchmark.spec)
    assert not more.seen[0][0, 0].any()
    np.testing.assert_array_equal(more.seen[0][0, 1:], sample["inputs"].numpy())


@pytest.mark.parametrize(
    ("data", "takes", "message"),
    [
        (TRUE_COLOUR, RICE2, "the images hold red green blue and the weights take swir16 nir08 red: swir16 nir08 are"),
        (RICE2, TRUE_COLOUR, "green blue are missing"),
        (SEN12MSCR, TRUE_COLOUR, "red of the images is 0 to 1 as 0 to 5 and the weights take 0 to 0.3558 as 0 to 1"),
        (TRUE_COLOUR, replace(TRUE_COLOUR, outputs=("red",)), "Give weights that restore green blue too"),
    ],
)
def test_weights_that_take_or_give_other_bands_are_refused_before_anything_is_written(
    root: Path, tmp_path: Path, data: InputSpec, takes: InputSpec, message: str
) -> None:
    samples = PairFolder(root / "cloudy", root / "clear")
    benchmark = Benchmark(samples, replace(DATASETS["rice1"], spec=data), "test", "0")
    with pytest.raises(ConfigError, match="mine does not fit rice1: ") as refused:
        evaluate(benchmark, [method_from_predictor(Drawn(takes), "mine")], ["att-cr"], tmp_path / "out")
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_shipped_weights_run_on_pairs_whose_bands_are_named_and_on_no_others(root: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    options = ["evaluate", "--data", "pairs", "--root", str(root), "--weights", "rice2-small", "--out", str(tmp_path)]
    wrong = run(app, options)
    assert isinstance(wrong.exception, ConfigError)
    assert "rice2-small does not fit pairs: the images hold red green blue" in str(wrong.exception)
    right = run(app, [*options, "--slots", "swir16,nir08,red"])
    assert right.exit_code == 0, right.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["made with"]["data"]["slots"] == ["swir16", "nir08", "red"]
    assert list(report["protocols"]) == ["att-cr"]


def test_figures_show_red_green_and_blue_by_name_and_false_colour_as_it_is() -> None:
    image = np.zeros((13, 4, 4))
    image[[3, 2, 1], :, :] = np.array([0.1, 0.2, 0.5]).reshape(3, 1, 1)
    assert figures.picture(image, SEN12MSCR)[0, 0].tolist() == pytest.approx([0.1 / 0.3558, 0.2 / 0.3558, 1.0])
    for spec in (RICE2, TRUE_COLOUR):
        assert figures.picture(image[1:4], spec)[0, 0].tolist() == pytest.approx([0.5, 0.2, 0.1])
    turned = replace(TRUE_COLOUR, slots=TRUE_COLOUR.slots[::-1], outputs=("blue", "green", "red"))
    assert figures.picture(image[1:4], turned)[0, 0].tolist() == pytest.approx([0.1, 0.2, 0.5])
    one = replace(TRUE_COLOUR, outputs=("green",))
    assert figures.picture(image[1:2], one)[0, 0].tolist() == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.slow
def test_real_rice2_inputs_score_what_the_facts_say(shared_data: Path, tmp_path: Path) -> None:
    report = evaluate(open_benchmark("rice2", shared_data / "rice2"), [COPY], ["att-cr"], tmp_path)
    result = report["protocols"]["att-cr"]["methods"]["input copied"]["psnr"]
    assert result["images"] == 148
    assert result["mean"] == pytest.approx(22.51, abs=0.005)
    assert torch.isfinite(torch.tensor([result["low"], result["high"]])).all()


def test_a_report_names_the_libraries_that_are_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = importlib.metadata.version

    def without_torch(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", without_torch)
    versions = evaluate(open_benchmark("pairs", root), [COPY], ["att-cr"], tmp_path)["made with"]["versions"]
    assert "torch" not in versions
    assert versions["numpy"] == np.__version__


def dated(root: Path) -> Path:
    """A place of two dates, flat but for noise: the first 30 rows clear, then thin cloud."""
    clear = np.random.default_rng(0).integers(2000, 3000, (13, 48, 48)).astype(np.uint16)
    for band, step in enumerate((6, 1, 1, 1, 2, 2, 2, 1, 2, 6, 6, 2, 2)):
        clear[band] = clear[band, ::step, ::step].repeat(step, 0).repeat(step, 1)
    mask = np.zeros((48, 48), np.uint8)
    mask[30:] = 2
    cloudy = clear + 100
    cloudy[:, 30:] += 500
    write_native(root, "roi1_cloudy", cloudy, mask)
    write_native(root, "roi1_clear", clear, np.zeros_like(mask))
    return root


class Less:
    """A predictor of any bands that takes 0.025 of reflectance off them all."""

    identity: Mapping[str, str] = {"weights_sha256": "12", "backend": "less"}
    spec = ANY_BANDS

    def __call__(self, x: np.ndarray) -> np.ndarray:
        restored = x[:, :13] - np.float32(0.025 * 2.5) * (np.arange(48)[None, None, :, None] >= 30)
        return np.concatenate([restored, np.zeros_like(restored)], axis=1).astype(np.float32)


def test_pairs_of_two_dates_are_reported_by_class(tmp_path: Path) -> None:
    benchmark = open_benchmark("cloudsen12", dated(tmp_path / "dates"))
    method = method_from_predictor(Less(), "less")
    report = evaluate(benchmark, [method], ["two-dates", "two-dates-raw", "uncrtaints"], tmp_path / "out")
    assert list(report["protocols"]) == ["uncrtaints", "two-dates", "two-dates-raw"]  # of whole images first
    fitted, raw = (report["protocols"][name] for name in ("two-dates", "two-dates-raw"))
    assert fitted["classes"] == {"thin": 1, "clear": 1, "all": 1}
    assert list(fitted["methods"]) == ["less", "input copied", "surroundings only"]
    for result, thin, clear in ((fitted, 0.05, 0.0), (raw, 0.06, 0.01)):
        before, after = (result["methods"][name] for name in ("input copied", "less"))
        assert before["thin"]["mae"]["mean"] == pytest.approx(thin, abs=1e-5)
        assert after["thin"]["mae"]["mean"] == pytest.approx(thin - 0.025, abs=1e-5)
        assert after["clear"]["mae"]["mean"] == pytest.approx(clear, abs=1e-5)
    squared = (30 * 0.01**2 + 18 * 0.035**2) / 48
    psnr = report["protocols"]["uncrtaints"]["methods"]["less"]["psnr"]["mean"]
    assert psnr == pytest.approx(-10 * math.log10(squared), abs=1e-3)  # in reflectance, though the samples go up to 2
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| thin | 1 | **less** | 0.0250 [0.0250, 0.0250] |" in text
    with (tmp_path / "out" / "images-two-dates.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["class"] for row in table] == ["clear", "thin", "all"]
    assert float(table[1]["less: mae"]) == pytest.approx(0.025, abs=1e-5)


def test_a_report_by_class_alone_is_printed_by_class_and_needs_masks(root: Path, tmp_path: Path) -> None:
    options = ["evaluate", "--data", "cloudsen12", "--root", str(dated(tmp_path / "dates")), "--baseline", "copy"]
    result = CliRunner().invoke(app, [*options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "two-dates: MAE thin (1 images) input copied 0.0500, surroundings only 0." in result.output
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Means are over images" in text
    assert "## Cloudy and clear pixels" not in text
    for name, wrong in (("two-dates", "pairs has none"), ("none", "there is no protocol 'none'; there are att-cr, ")):
        with pytest.raises(ConfigError, match=wrong):
            evaluate(open_benchmark("pairs", root), [COPY], [name], tmp_path / "no")


def test_stored_predictions_of_two_dates_are_digital_numbers_over_10000(tmp_path: Path) -> None:
    benchmark = open_benchmark("cloudsen12", dated(tmp_path / "dates"))
    clear = (benchmark.samples[0]["clear"] * 4000).round().numpy()
    write_tif(tmp_path / "peer" / "roi1_cloudy.tif", clear.astype(np.uint16))
    report = evaluate(
        benchmark, [method_from_predictions(tmp_path / "peer", benchmark)], ["two-dates-raw"], tmp_path / "o"
    )
    assert report["protocols"]["two-dates-raw"]["methods"]["peer"]["all"]["mae"]["mean"] == pytest.approx(0, abs=1e-6)


def test_reflectance_up_to_2_is_shown_as_bright_as_other_reflectance() -> None:
    data = DATASETS["cloudsen12"]
    shown = Benchmark(PairFolder.__new__(PairFolder), data, "test", "0").shown_spec
    assert (data.spec.gain, shown.gain) == (pytest.approx(2 / 0.3558), pytest.approx(1 / 0.3558))
