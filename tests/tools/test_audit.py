import json
import resource
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tools.audit.__main__ import main
from tools.audit.find import KINDS, Audit, Looks, _mismatched, _runs, audit
from tools.audit.listing import Listing
from tools.audit.looks import SYMMETRIES, turn

from attcr.data import SEN12MSCR
from attcr.data.pairs import read_image
from attcr.data.sen12mscr import patch_path
from attcr.data.simulate import THIN_VEIL, simulate_clouds
from attcr.data.splits import PARTS, load_split
from attcr.errors import ConfigError, DataNotFoundError
from fakes import fake_patch, write_tif

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def noise(seed: int, size: int = 96, contrast: float = 40.0) -> np.ndarray:
    """A natural-looking image (H, W, 3): waves whose height falls with their frequency."""
    generator = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)) * size
    spectrum = np.fft.rfft2(generator.normal(size=(3, size, size))) / np.maximum(frequency, 1) ** 1.2
    field = np.fft.irfft2(spectrum, (size, size))
    field = 0.7 * field[:1] + 0.3 * field
    grey = 110 + contrast * (field - field.mean()) / field.std()
    return grey.clip(0, 255).astype(np.uint8).transpose(1, 2, 0)


def cloudy(clear: np.ndarray) -> np.ndarray:
    return (90 + 0.6 * clear).astype(np.uint8)


def put(root: Path, name: str, clear: np.ndarray, ending: str = "png", **how: int | bool) -> None:
    for side, image in (("cloudy", cloudy(clear)), ("clear", clear)):
        (root / side).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.ascontiguousarray(image)).save(root / side / f"{name}.{ending}", **how)


def near(report: Audit) -> set[tuple[str, ...]]:
    return {tuple(sorted(i.name for i in f.images)) for f in report.of("near") if f.images[0].side == "clear"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed in range(16):
        put(tmp_path, f"t{seed}", noise(seed))
    for seed in range(16, 24):
        put(tmp_path, f"e{seed}", noise(seed))
    return tmp_path


def lists(root: Path) -> dict[str, list[str]]:
    names = sorted(path.stem for path in (root / "clear").iterdir())
    return {"train": [n for n in names if n[0] == "t"], "test": [n for n in names if n[0] == "e"]}


def test_distinct_images_raise_no_alarm(root: Path) -> None:
    report = audit("pairs", root, lists=lists(root))
    assert report.findings == ()
    assert report.problems == 0
    assert (report.pairs, report.parts["train"]["pairs"], report.parts["test"]["listed"]) == (24, 16, 8)


def test_equal_pixels_are_found_whatever_the_file(root: Path) -> None:
    put(root, "e_copy", noise(3), "webp", lossless=True)
    report = audit("pairs", root, lists=lists(root))
    assert [{(i.name, i.side) for i in f.images} for f in report.of("exact")] == [
        {("t3", "clear"), ("e_copy", "clear")},
        {("t3", "cloudy"), ("e_copy", "cloudy")},
    ]
    assert report.of("near") == []
    assert report.names("exact", "test", "train") == ["e_copy"]


@pytest.mark.parametrize("symmetry", range(8))
def test_turned_and_reencoded_copies_are_found_with_their_symmetry(root: Path, symmetry: int) -> None:
    turned = turn(noise(5).transpose(2, 0, 1), symmetry).transpose(1, 2, 0)
    put(root, "e_copy", turned, "jpg", quality=80)
    report = audit("pairs", root, lists=lists(root))
    assert near(report) == {("e_copy", "t5")}
    finding = report.of("near", "test", "train")[0]
    back = turn(turned.transpose(2, 0, 1), finding.symmetry)
    assert np.array_equal(back, noise(5).transpose(2, 0, 1))
    assert SYMMETRIES[finding.symmetry] in finding.note


@pytest.mark.parametrize("window", [np.s_[4:-4, 4:-4], np.s_[4:, 4:], np.s_[:-4, 4:]])
def test_cropped_copies_are_found(root: Path, window: tuple[slice, slice]) -> None:
    put(root, "e_copy", noise(60, 256), "png")
    put(root, "t_first", noise(60, 256)[window], "png")
    assert near(audit("pairs", root, lists=lists(root))) == {("e_copy", "t_first")}


def test_copies_inside_a_part_are_found_when_asked_and_once(root: Path) -> None:
    put(root, "t_copy", noise(2)[:, ::-1])
    assert near(audit("pairs", root, lists=lists(root))) == set()
    found = audit("pairs", root, lists=lists(root), within=True).of("near")
    assert [tuple(i.name for i in f.images) for f in found] == [("t2", "t_copy")] * 2  # the two sides
    assert near(audit("pairs", root)) == {("t2", "t_copy")}, "without lists all is one part"


def test_plain_images_are_alike_and_not_copies(root: Path) -> None:
    generator = np.random.default_rng(0)
    for name in ("t_sea", "e_sea"):
        sea = np.full((96, 96, 3), (12, 24, 36)) + generator.integers(0, 2, (96, 96, 3))
        put(root, name, sea.astype(np.uint8))
    report = audit("pairs", root, lists=lists(root))
    assert report.of("near") == []
    assert report.names("alike", "test", "train") == ["e_sea"]
    assert 0 < (report.of("alike")[0].value or 0) <= 1
    assert report.problems == 0


def test_one_bright_corner_does_not_make_two_plain_seas_copies(root: Path) -> None:
    for seed, name in enumerate(("t_sea", "e_sea")):
        sea = noise(50 + seed, contrast=1.5).astype(float)
        corner = noise(80 + seed, 24).astype(float) + 80
        sea[:24, :24] = corner
        put(root, name, sea.clip(0, 255).astype(np.uint8))
    report = audit("pairs", root, lists=lists(root))
    assert report.of("near") == report.of("exact") == []


def test_a_side_that_is_the_same_or_of_another_pair_is_found(root: Path) -> None:
    Image.fromarray(noise(1)).save(root / "cloudy" / "t1.png")
    files = [root / "clear" / f"t{number}.png" for number in (6, 7)]
    first, second = (file.read_bytes() for file in files)
    files[0].write_bytes(second)
    files[1].write_bytes(first)
    report = audit("pairs", root, lists=lists(root))
    assert [f.images[0].name for f in report.of("same")] == ["t1"]
    assert [[i.name for i in f.images] for f in report.of("mismatched")] == [["t6", "t7"], ["t7", "t6"]]


def test_a_pair_hidden_by_cloud_is_a_note_and_no_problem(root: Path) -> None:
    Image.fromarray(noise(999)).save(root / "cloudy" / "t4.png")
    report = audit("pairs", root, lists=lists(root))
    assert [f.images[0].name for f in report.of("unconfirmed")] == ["t4"]
    assert report.of("mismatched") == []
    assert report.problems == 0


def test_bad_files_are_named(root: Path) -> None:
    (root / "clear" / "t0.png").write_bytes(b"no image")
    (root / "cloudy" / "t1.png").unlink()
    put(root, "t2", noise(2, 64))
    Image.fromarray(noise(3, 64)).save(root / "clear" / "t3.png")
    put(root, "x", noise(77))
    given = lists(root)
    given["train"].append("t99")
    report = audit("pairs", root, lists=given)
    assert {(f.images[0].name, f.images[0].side) for f in report.of("unreadable")} == {("t0", "clear")}
    assert {(f.images[0].name, f.images[0].side) for f in report.of("missing")} == {
        ("t1", "cloudy"),
        ("t99", "cloudy"),
        ("t99", "clear"),
    }
    assert [(f.images[0].name, len(f.images)) for f in report.of("odd")] == [
        ("t2", 1), ("t2", 1), ("t3", 1), ("t3", 2)
    ]  # fmt: skip
    assert "3 bands 64x64 uint8; most are 3 bands 96x96 uint8" in {f.note for f in report.of("odd")}
    assert [f.images[0].name for f in report.of("unlisted")] == ["x"]


def test_lists_that_share_names_or_match_by_substring_are_found(root: Path) -> None:
    given = lists(root)
    given["test"].append("t1")
    report = audit("pairs", root, lists=given)
    assert [f.images[0].name for f in report.of("shared")] == ["t1"]
    leak = report.of("substring", "train")[0]
    assert {i.name for i in leak.images} == {"t1", *(f"t{n}" for n in range(10, 16))}


@pytest.fixture
def regions(tmp_path: Path) -> Path:
    """All 175 regions of SEN12MS-CR, one small patch each, all different."""
    for part in PARTS:
        for region in load_split("sen12mscr", part).names:
            for kind in ("s1", "s2", "s2_cloudy"):
                seed = int.from_bytes(f"{region}{kind}".encode(), "little")
                write_tif(patch_path(tmp_path, region, kind, 7), fake_patch(kind, seed, 16))
    return tmp_path


def test_substring_matching_leaks_6_of_10_test_regions_of_a_sen12mscr_tree_and_ours_none(
    regions: Path,
) -> None:
    report = audit("sen12mscr", regions)
    assert report.pairs == 175
    assert [f.note for f in report.of("substring", "test")] == ["6 of 10 entries of test contain an entry of train"]
    assert report.of("exact") == report.of("near") == report.of("odd") == []

    # What a loader does that keeps each path with `s2_cloudy_1` in it, and what ours does.
    files = sorted(regions.rglob("*_s2_cloudy_*.tif"))
    train = load_split("sen12mscr", "train").names
    wanted = [f"{season}_s2_cloudy_{number}" for season, number in (region.split("/") for region in train)]
    loaded = {f.name.replace("_s2_cloudy", "")[:-4] for f in files if any(text in f.name for text in wanted)}
    test = set(SEN12MSCR(regions, "test").names)
    assert len(test) == 10
    assert len(test & loaded) == 6
    assert len(test & set(SEN12MSCR(regions, "train").names)) == 0


def test_a_damaged_sar_file_and_an_incomplete_patch_are_found(regions: Path) -> None:
    patch_path(regions, "ROIs1158_spring/31", "s1", 7).write_bytes(b"")
    patch_path(regions, "ROIs1158_spring/44", "s2", 7).unlink()
    report = audit("sen12mscr", regions)
    assert [(f.images[0].name, f.images[0].side) for f in report.of("unreadable")] == [("ROIs1158_spring_31_p7", "sar")]
    assert [(f.images[0].name, f.note) for f in report.of("missing")] == [
        ("ROIs1158_spring/44", "1 patches lack a file")
    ]


def test_the_command_prints_a_table_writes_json_and_a_contact_sheet(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, "e_copy", noise(5)[::-1], "jpg", quality=80)
    files = []
    for part, names in lists(root).items():
        file = tmp_path / f"{part}.txt"
        file.write_text("".join(f"{name}.png\n" for name in names))
        files += ["--list", f"{part}={file}"]
    out = tmp_path / "out"
    assert main(["pairs", str(root), *files, "--out", str(out)]) == 1
    printed = capsys.readouterr().out
    assert f"pairs at {root}: 25 pairs" in printed
    assert "      2  near " in printed
    assert "near: 1 test images have one in train: e_copy" in printed
    report = json.loads((out / "audit.json").read_text())
    assert report["counts"] == {kind: 2 if kind == "near" else 0 for kind in KINDS}
    assert report["findings"][0]["symmetry"] == "flipped top-bottom"
    sheet = np.asarray(Image.open(out / "contact_1.png"))
    assert sheet.std() > 20
    assert not (out / "contact_2.png").exists()
    with pytest.raises(SystemExit):
        main(["pairs", str(root), "--list", "dev=x"])
    assert "expected PART=FILE" in capsys.readouterr().err


PLANTED: dict[str, Callable[[np.ndarray], tuple[np.ndarray, str, dict[str, int | bool]]]] = {
    "exact": lambda image: (image, "webp", {"lossless": True}),
    "reencoded": lambda image: (image, "jpg", {"quality": 75}),
    "flipped": lambda image: (image[:, ::-1], "png", {}),
    "turned": lambda image: (np.rot90(image), "png", {}),
    "cropped": lambda image: (image[4:-4, 4:-4], "png", {}),
}


def real_images(shared_data: Path) -> list[Path]:
    """300 distinct real images: 100 of RICE1, 150 of Sentinel-2, 50 of RICE2 (sea, desert, forest)."""
    return [
        *sorted((shared_data / "rice1_256" / "label").iterdir()),
        *sorted((shared_data / "clear_s2_rgb").iterdir()),
        *(shared_data / "rice2" / "label" / f"{number}.webp" for number in range(0, 736, 15)),
    ]


def plant(
    root: Path, images: Iterable[Path], every: int, ways: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Make a tree of real images in train, and in test copies of each `every`-th, the ways in turn."""
    given: dict[str, list[str]] = {"train": [], "test": []}
    planted = {}
    for at, path in enumerate(images):
        image = read_image(path).transpose(1, 2, 0)[:256, :256]
        put(root, f"{at}", image, "png", compress_level=1)
        given["train"].append(f"{at}")
        if at % every == 0:
            way = ways[at // every % len(ways)]
            copy, ending, how = PLANTED[way](image)
            put(root, f"copy{at}", copy, ending, **how)
            given["test"].append(f"copy{at}")
            planted[f"copy{at}"] = way
    return given, planted


def check_planted(root: Path, given: dict[str, list[str]], planted: dict[str, str]) -> None:
    report = audit("pairs", root, lists=given, within=True)
    found: dict[str, str] = {}
    for kind in ("alike", "near", "exact"):
        for finding in report.of(kind):
            first, second = sorted(image.name for image in finding.images)[:2]
            if second == f"copy{first}":
                found[second] = kind
            else:
                assert kind == "alike", f"false alarm: {kind} {first} {second} {finding.note}"
    assert set(found) == set(planted)
    expected = {name: "exact" if way == "exact" else "near" for name, way in planted.items()}
    as_alike = sorted(name for name in found if found[name] != expected[name])
    print(f"\n{len(planted)} planted, all found, {len(as_alike)} of them only as alike: {as_alike}")
    for name in as_alike:  # a plain sea of which re-encoding left nothing to correlate
        assert (found[name], planted[name]) == ("alike", "reencoded")
        assert read_image(root / "clear" / f"{name[4:]}.png").std(axis=(1, 2)).max() < 1
    assert len(as_alike) <= len(planted) // 100


def test_planted_copies_of_real_images_are_all_found(shared_data: Path, tmp_path: Path) -> None:
    images = real_images(shared_data)[::10]
    check_planted(tmp_path, *plant(tmp_path, images, 2, list(PLANTED)))


@pytest.mark.slow
@pytest.mark.parametrize("way", PLANTED)
def test_300_copies_of_300_real_images_are_all_found(shared_data: Path, tmp_path: Path, way: str) -> None:
    images = real_images(shared_data)
    assert len(images) == 300
    check_planted(tmp_path, *plant(tmp_path, images, 1, [way]))


@pytest.mark.slow
def test_300_distinct_real_images_raise_no_alarm(shared_data: Path, tmp_path: Path) -> None:
    for at, path in enumerate(real_images(shared_data)):
        put(tmp_path, str(at), read_image(path).transpose(1, 2, 0)[:256, :256], "png", compress_level=1)
    report = audit("pairs", tmp_path)
    assert report.pairs == 300
    assert report.problems == 0


def test_seas_of_rice2_are_alike_and_no_copies(shared_data: Path, tmp_path: Path) -> None:
    names = [str(number) for number in range(600, 636)]
    for folder in ("cloud", "label"):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.webp").symlink_to(shared_data / "rice2" / folder / f"{name}.webp")
    test = set(load_split("rice2", "test").names)
    given = {"train": [n for n in names if n not in test], "test": [n for n in names if n in test]}
    report = audit("rice2", tmp_path, lists=given)
    assert report.problems == 0
    assert {"602", "606", "607", "614", "621", "632"} <= set(report.names("alike", "test", "train"))


@pytest.mark.slow
def test_the_lists_of_rice2_have_no_copies_and_ours_no_alikes(shared_data: Path) -> None:
    given = {part: (shared_data / "rice2" / f"{part}_list.txt").read_text().split() for part in ("train", "test")}
    report = audit("rice2", shared_data / "rice2", lists=given)
    assert report.problems == 0
    assert len(report.names("alike", "test", "train")) == 25
    ours = audit("rice2", shared_data / "rice2")
    assert ours.problems == 0
    assert ours.of("alike") == []
    assert len(ours.of("unlisted")) == 57


def test_doubtful_pairs_far_apart_are_looked_at_in_bounded_memory(tmp_path: Path) -> None:
    """Their partners are sought among their neighbours, not among all pairs between the first and the last."""
    count = 40_000
    looks = Looks(count, 2, (0, 1, 2), tmp_path / "thumbnails")
    looks.seen[:], looks.shows[:] = True, 1
    looks.shows[::200] = 0
    looks.thumb[:] = np.random.default_rng(0).integers(-99, 99, looks.thumb.shape, np.int8)
    listing = Listing([str(n) for n in range(count)], np.zeros(count, np.int8), lambda index, side: None)
    tracemalloc.start()
    found = [finding.images[0].name for finding in _mismatched(listing, looks)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [str(n) for n in range(0, count, 200)]
    assert peak < 150e6


def test_the_farthest_neighbour_either_way_is_looked_at_and_none_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(noise(0)).save(tmp_path / "any.png")
    listing = Listing([str(n) for n in range(21)], np.zeros(21, np.int8), lambda index, side: tmp_path / "any.png")
    monkeypatch.setattr("tools.audit.find.NEIGHBOURS", 4)
    monkeypatch.setattr("tools.audit.find.shows_through", lambda *_: 0.9)
    for partner, kind in ((5, "unconfirmed"), (6, "mismatched"), (14, "mismatched"), (15, "unconfirmed")):
        looks = Looks(21, 2, (0, 1, 2), tmp_path / "thumbnails")
        looks.seen[:], looks.shows[:] = True, 1
        looks.shows[10] = 0
        looks.thumb[:] = np.random.default_rng(0).integers(-99, 99, looks.thumb.shape, np.int8)
        looks.thumb[10, 0] = looks.thumb[partner, 1]
        assert [finding.kind for finding in _mismatched(listing, looks)] == [kind]


def test_runs_end_where_they_are_long_or_far() -> None:
    indices = np.array([3, 4, 5, 6, 20, 29, 30, 50])
    runs = [run.tolist() for run in _runs(indices, 3, 10)]
    assert runs == [[3, 4, 5], [6], [20, 29], [30], [50]]


@pytest.mark.slow
def test_122218_patches_are_audited_in_bounded_memory(tmp_path: Path) -> None:
    every = [region for part in PARTS for region in load_split("sen12mscr", part).names]
    count, size = 122_218, 16
    generator = np.random.default_rng(0)
    made = 0
    for at, region in enumerate(every):
        for number in range(count // 175 + (at < count % 175)):
            for kind in ("s1", "s2", "s2_cloudy"):
                bands = generator.integers(0, 4000, (2 if kind == "s1" else 13, size, size)).astype(np.uint16)
                write_tif(patch_path(tmp_path, region, kind, number), bands)
            made += 1
    assert made == count
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = audit("sen12mscr", tmp_path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n{before:.0f} MB before, {after:.0f} MB at most, {len(report.findings)} findings")
    assert report.pairs == count
    assert report.of("exact") == report.of("near") == []
    assert after - before < 1500


def test_tcloud_is_audited_in_both_layouts(tmp_path: Path) -> None:
    given = {part: list(load_split("tcloud", part).names[:3]) for part in PARTS}
    for layout in ("apart", "together"):
        listed = [(part, name) for part in PARTS for name in given[part]]
        for seed, (part, name) in enumerate(listed):
            folder = tmp_path / layout / ("" if layout == "together" else "test" if part == "test" else "train")
            for side, image in (("cloud", cloudy(noise(seed))), ("reference", noise(seed))):
                (folder / side).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(folder / side / f"{name}.png")
        report = audit("tcloud", tmp_path / layout, lists=given)
        assert (report.pairs, report.problems) == (9, 0)


def test_an_unknown_set_and_a_missing_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'rice3'.*rice1, rice2, tcloud, sen12mscr"):
        audit("rice3", tmp_path, lists={})
    with pytest.raises(DataNotFoundError, match=r"rice2: looked for .*cloud.*BUPTLdy"):
        audit("rice2", tmp_path)


def test_simulated_pairs_belong_together(tmp_path: Path) -> None:
    for number in range(6):
        clear = noise(number)
        put(tmp_path, str(number), clear)
        image = torch.from_numpy(clear.transpose(2, 0, 1) / np.float32(255))
        veiled = simulate_clouds(image, THIN_VEIL, generator=torch.Generator().manual_seed(number)).cloudy
        picture = (veiled.numpy().transpose(1, 2, 0) * 255).astype(np.uint8)
        Image.fromarray(picture).save(tmp_path / "cloudy" / f"{number}.png")
    assert audit("pairs", tmp_path).findings == ()


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Three pairs of train and one of test, a flipped copy of the first."""
    for seed in range(3):
        put(tmp_path, f"t{seed}", noise(seed))
    put(tmp_path, "e0", noise(0)[:, ::-1])
    return tmp_path


@pytest.mark.parametrize(
    ("measure", "enough", "too_little"),
    [("hash_distances", 16, 17), ("correlate", 0.4, 0.399), ("aligned_correlation", 0.45, 0.4499)],
)
def test_a_copy_is_near_from_the_very_threshold_on(
    few: Path, monkeypatch: pytest.MonkeyPatch, measure: str, enough: float, too_little: float
) -> None:
    shaped = {
        "hash_distances": lambda one, other: np.full((len(one), len(other)), value, np.float32),
        "correlate": lambda one, _: np.full(len(one), value, np.float32),
        "aligned_correlation": lambda *_: value,
    }
    for value in (enough, too_little):
        monkeypatch.setattr(f"tools.audit.find.{measure}", shaped[measure])
        found = {image.name for finding in audit("pairs", few, lists=lists(few)).of("near") for image in finding.images}
        assert ("e0" in found) == (value == enough)


@pytest.mark.parametrize(("apart", "alike"), [(1, ["e_sea"]), (2, [])])
def test_images_are_alike_up_to_one_grey_level(few: Path, apart: int, alike: list[str]) -> None:
    put(few, "t_sea", np.full((96, 96, 3), 100, np.uint8))
    put(few, "e_sea", np.full((96, 96, 3), 100 + apart, np.uint8))
    report = audit("pairs", few, lists=lists(few))
    assert report.names("alike", "test", "train") == alike


@pytest.mark.parametrize(("shown", "doubtful"), [(0.3, 0), (0.299, 4)])
def test_a_pair_is_doubtful_below_0_3(few: Path, monkeypatch: pytest.MonkeyPatch, shown: float, doubtful: int) -> None:
    monkeypatch.setattr("tools.audit.find.shows_through", lambda *_: np.float32(shown))
    monkeypatch.setattr("tools.audit.find._fit_of_blocks", lambda one, other: np.zeros((len(one), len(other))))
    assert len(audit("pairs", few, lists=lists(few)).of("unconfirmed")) == doubtful


@pytest.mark.parametrize(
    ("thumbs", "closer", "kind"),
    [(0.6, 0.4, "mismatched"), (0.59, 0.4, "unconfirmed"), (0.6, 0.39, "unconfirmed")],
)
def test_a_side_fits_another_pair_from_the_very_thresholds_on(
    few: Path, monkeypatch: pytest.MonkeyPatch, thumbs: float, closer: float, kind: str
) -> None:
    first = iter([0.1] * 4)  # each pair by itself; then the closer looks at others
    monkeypatch.setattr("tools.audit.find.shows_through", lambda *_: next(first, closer))
    monkeypatch.setattr("tools.audit.find._fit_of_blocks", lambda one, other: np.full((len(one), len(other)), thumbs))
    report = audit("pairs", few, lists=lists(few))
    assert {name: len(report.of(name)) for name in ("mismatched", "unconfirmed")} == {
        "mismatched": 4 * (kind == "mismatched"), "unconfirmed": 4 * (kind == "unconfirmed"),
    }  # fmt: skip
    assert all(one.images[0].name != one.images[-1].name for one in report.of("mismatched"))


def test_sides_that_differ_in_height_alone_are_odd(few: Path) -> None:
    Image.fromarray(noise(1)[:64]).save(few / "clear" / "t1.png")
    found = [finding for finding in audit("pairs", few, lists=lists(few)).of("odd") if len(finding.images) == 2]
    assert [(finding.images[0].name, finding.note) for finding in found] == [("t1", "the two sides differ in size")]
