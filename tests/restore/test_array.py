"""The walk of a pixel, in memory."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import rasterio
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rasterio.transform import from_origin
from torch import Tensor, nn

from attcr.bands.sensors import PICTURE
from attcr.bands.spec import RICE2
from attcr.errors import AttcrError, ConfigError, SceneError, ShapeError
from attcr.restore import RestoreOptions, restore_array, restore_scene
from attcr.restore.array import restore_tiles
from attcr.restore.options import DEFAULTS
from attcr.restore.walk import LOW_CONFIDENCE, NODATA, ORIGINAL, UNDER_THICK, UNDER_THIN
from attcr.scenes.tiles import grid
from attcr.weights import load_model
from attcr.weights.official import convert_official
from fake_scenes import SENSORS, Counting, Same, Smooth, by_position, noise, same_bits, smooth_picture


def options(kind: str, **more: object) -> RestoreOptions:
    return RestoreOptions(**{"sensor": SENSORS[kind], "tile": 64, "overlap": 16, **more})  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(sorted(SENSORS)),
    height=st.integers(1, 150),
    width=st.integers(1, 150),
    seed=st.integers(0, 1000),
    masked=st.booleans(),
    nodata=st.sampled_from([None, 0.0, 7.0]),
)
def test_a_network_that_changes_nothing_gives_back_every_bit(
    dtype: str, height: int, width: int, seed: int, masked: bool, nodata: float | None
) -> None:
    image = noise(dtype, (2, height, width), seed)
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        image[rng.random(image.shape) < 0.05] = np.nan
        image[rng.random(image.shape) < 0.01] = -0.0
        image[rng.random(image.shape) < 0.01] = np.inf
    clouds = (rng.random((height, width)) < 0.01) if masked else None
    out = restore_array(image, Same(len(image)), clouds=clouds, options=options(dtype, nodata=nodata))
    assert same_bits(out.image, image)


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(sorted(SENSORS)),
    seed=st.integers(0, 10_000),
    dilate=st.integers(0, 12),
    feather=st.integers(0, 12),
    share=st.sampled_from([0.0, 0.0003, 0.003, 0.02]),
)
def test_outside_the_rim_of_the_mask_every_pixel_leaves_with_the_bits_it_came_with(
    dtype: str, seed: int, dilate: int, feather: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 120, 2)
    image = noise(dtype, (2, height, width), seed)
    clouds = rng.random((height, width)) < share
    model = Counting(0.5, len(image))
    out = restore_array(image, model, clouds=clouds, options=options(dtype, dilate=dilate, feather=feather))
    y, x = np.nonzero(clouds)
    rows, cols = np.mgrid[0:height, 0:width]
    distance = np.full((height, width), np.inf)
    for cloud_row, cloud_col in zip(y, x, strict=True):
        distance = np.minimum(distance, np.hypot(rows - cloud_row, cols - cloud_col))
    outside = distance > dilate + feather
    assert same_bits(out.image[:, outside], image[:, outside])
    assert (out.quality[outside] == ORIGINAL).all()
    if not clouds.any():
        assert model.tiles == 0


def test_inside_the_mask_the_network_decides_and_the_rim_fades() -> None:
    image = np.full((1, 64, 64), 200, np.uint8)
    clouds = np.zeros((64, 64), np.uint8)
    clouds[:, :16] = 2
    out = restore_array(image, Counting(0.5, len(image)), clouds=clouds, options=options("uint8", dilate=4, feather=4))
    line = out.image[0, 30].astype(int)
    assert (line[:20] == 100).all()
    assert (np.diff(line[19:25]) > 0).all()
    assert (line[24:] == 200).all()
    assert (out.quality[30, :16] == UNDER_THICK).all()
    assert (out.quality[30, 16:24] == UNDER_THIN).all()


def test_tiles_without_a_cloudy_pixel_never_reach_the_network() -> None:
    model = Counting()
    clouds = np.zeros((640, 640), bool)
    clouds[8, 8] = True
    restore_array(noise("uint8", (3, 640, 640)), model, clouds=clouds, options=options("uint8", dilate=2, feather=2))
    assert model.tiles == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_pixel_stays_bad_and_changes_nothing_beyond_its_tiles(bad: float) -> None:
    image = smooth_picture(3, 200, 200)
    model = Smooth()
    settings = RestoreOptions(sensor=PICTURE, tile=64, overlap=16)
    whole = restore_array(image, model, options=settings).image
    hurt = image.copy()
    hurt[1, 100, 100] = bad
    out = restore_array(hurt, model, options=settings)
    assert same_bits(out.image[1, 100, 100], hurt[1, 100, 100])
    assert out.quality[100, 100] == LOW_CONFIDENCE  # the other two bands were restored
    hurt[:, 100, 100] = bad
    out = restore_array(hurt, model, options=settings)
    assert not np.isfinite(out.image[:, 100, 100]).any()
    assert out.quality[100, 100] == NODATA
    others = np.ones((200, 200), bool)
    others[100, 100] = False
    assert np.isfinite(out.image[:, others]).all()
    changed = np.abs(out.image - whole).max(axis=0) > 0
    rows, cols = np.nonzero(changed & others)
    assert rows.min() > 100 - 64
    assert rows.max() < 100 + 64
    assert cols.min() > 100 - 64
    assert cols.max() < 100 + 64


def test_a_nodata_pixel_stays_and_no_restored_pixel_becomes_one() -> None:
    image = noise("uint16", (2, 90, 90)) | 1
    image[:, 40:50, 40:50] = 0
    out = restore_array(image, Counting(0.0, len(image)), options=options("uint16", nodata=0))
    assert (out.image[:, 40:50, 40:50] == 0).all()
    assert (out.image[:, out.quality != NODATA] == 1).all()


def test_changing_only_the_batch_changes_nothing() -> None:
    image = smooth_picture(3, 150, 170)
    one = restore_array(image, Smooth(), options=RestoreOptions(sensor=PICTURE, tile=64, batch=1, overlap=16))
    many = restore_array(image, Smooth(), options=RestoreOptions(sensor=PICTURE, tile=64, batch=5, overlap=16))
    assert np.allclose(one.image, many.image, atol=1e-6)


class LeftToRight(nn.Module):
    """A network with a direction, as a scan has one."""

    spec = by_position(2)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.cumsum(x, dim=3) / x.shape[3]


def test_the_spread_of_the_eight_views_is_what_they_differ_by() -> None:
    image = smooth_picture(2, 40, 48)
    settings = RestoreOptions(sensor=PICTURE, tile=64, overlap=16, confidence=True)
    same = restore_array(image, Counting(0.5, bands=2), options=settings)
    assert same.spread is not None
    assert same.spread.max() < 1e-6
    out = restore_array(image, LeftToRight(), options=settings)
    x = torch.from_numpy(np.clip(image, 0, 1))[None]
    views = []
    for flip in (False, True):
        for turns in range(4):
            seen = torch.rot90(x.flip(3) if flip else x, turns, (2, 3))
            back = torch.rot90(LeftToRight()(seen) - seen, -turns, (2, 3))
            views.append((back.flip(3) if flip else back)[0].numpy())
    assert np.allclose(out.spread, np.std(views, axis=0).mean(axis=0), atol=1e-6)
    plain = restore_array(image, LeftToRight(), options=RestoreOptions(sensor=PICTURE, tile=64, overlap=16))
    assert same_bits(plain.image, out.image)


def test_low_precision_changes_only_what_the_network_changes() -> None:
    image = noise("uint16", (3, 50, 50))
    out = restore_array(image, Same(len(image)), options=options("uint16", dtype="bfloat16"))
    assert same_bits(out.image, image)


class Broken(nn.Module):
    spec = by_position(3)

    def forward(self, x: Tensor) -> Tensor:
        return x / 0


@pytest.mark.parametrize(
    ("image", "changes", "error", "text"),
    [
        (np.zeros((3, 4), np.uint8), {}, ShapeError, "bands, rows and columns"),
        (np.zeros((4, 9, 9), np.uint8), {}, ShapeError, "4 bands and the network takes 3 (band 1 band 2 band 3)"),
        (np.zeros((3, 0, 4), np.uint8), {}, ShapeError, "at least one pixel"),
        (np.zeros((3, 9, 9), np.uint16), {}, SceneError, "sensor"),
        (np.zeros((3, 9, 9), np.uint16), {"sensor": "rgb8"}, SceneError, "0..255 in uint8"),
        (np.zeros((3, 9, 9), np.uint8), {"sensor": "s2-l2a"}, SceneError, "rgb8"),
        (np.full((3, 9, 9), 4000.0, np.float32), {}, SceneError, "digital numbers"),
        (np.full((3, 9, 9), 200, np.uint16), {"sensor": "s2-l2a"}, SceneError, "8 bits"),
        (np.full((3, 9, 9), 500, np.uint16), {"sensor": "s2-l2a-n0400"}, SceneError, "below reflectance 0"),
        (np.zeros((3, 9, 9), np.uint8), {"mask": "auto"}, ConfigError, "clouds"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(
    image: np.ndarray, changes: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        restore_array(image, Same(), options=RestoreOptions(**changes))  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_a_network_that_gives_nan_is_an_error_not_a_black_patch() -> None:
    with pytest.raises(SceneError, match="not numbers"):
        restore_array(np.ones((3, 9, 9), np.uint8), Broken(), options=RestoreOptions())


@pytest.mark.parametrize(
    "changes",
    [{"tile": 4}, {"overlap": 200}, {"batch": 0}, {"dilate": -1}, {"dtype": "float8"}, {"sensor": "modis"}],
)
def test_options_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RestoreOptions(**changes)  # type: ignore[arg-type]


def test_the_digest_tells_apart_what_decides_the_result_and_only_that() -> None:
    plain = RestoreOptions()
    assert plain.digest() == RestoreOptions(device="cuda", batch=7).digest()
    different = [
        RestoreOptions(tile=128), RestoreOptions(overlap=8), RestoreOptions(dtype="bfloat16"),
        RestoreOptions(dtype="float32"), RestoreOptions(sensor="rgb8"), RestoreOptions(bands=("1", "2", "3")),
        RestoreOptions(mask="auto"),
        RestoreOptions(dilate=1), RestoreOptions(feather=1), RestoreOptions(radar="x.tif"),
        RestoreOptions(nodata=0), RestoreOptions(confidence=True), RestoreOptions(sensor=SENSORS["uint16"]),
        RestoreOptions(sensor=SENSORS["int16"]), plain,
    ]  # fmt: skip
    assert len({one.digest() for one in different}) == len(different)


def seam_ratio(out: np.ndarray, starts: list[int], size: int) -> float:
    """Mean step across columns where a tile begins or ends, over the mean step elsewhere."""
    steps = np.abs(np.diff(out, axis=2)).mean(axis=(0, 1))
    borders = sorted({c - 1 for start in starts for c in (start, start + size) if 0 < c < out.shape[2]})
    elsewhere = np.setdiff1d(np.arange(steps.size), borders)
    return float(steps[borders].mean() / steps[elsewhere].mean())


def restore_from_origins(
    image: np.ndarray, model: nn.Module, settings: RestoreOptions, origins: tuple[int, ...]
) -> list[np.ndarray]:
    """Restore with tiles laid from each origin, checking that no border shows."""
    results = []
    for origin in origins:
        tiles = grid(*image.shape[1:], tile=settings.tile, overlap=settings.overlap, origin=origin)
        out = restore_tiles(image, model, tiles, clouds=None, options=settings).image
        assert seam_ratio(out, list(tiles.cols), settings.tile) <= 1.02
        assert seam_ratio(out.transpose(0, 2, 1), list(tiles.rows), settings.tile) <= 1.02
        results.append(out)
    return results


def test_tile_borders_do_not_show_on_a_smooth_scene_and_where_tiles_start_matters_little() -> None:
    image = smooth_picture(3, 500, 520)
    settings = RestoreOptions(sensor=PICTURE, tile=128, overlap=32)
    results = restore_from_origins(image, Smooth(), settings, (0, 48))
    change = np.abs(results[0] - image).max()
    shift = np.abs(results[0] - results[1]).max()
    assert change > 0.02  # the network does something
    assert shift < 0.05  # of 1: at most a twentieth


@pytest.mark.slow
def test_tile_borders_of_trained_weights_do_not_show_on_a_smooth_scene(shared: Path, tmp_path: Path) -> None:
    source, target = shared / "weights" / "rice2-dim24-629steps.safetensors", tmp_path / "rice2.safetensors"
    convert_official(source, target, spec=RICE2)
    model = load_model(target)
    image = smooth_picture(3, 512, 576) * 0.6 + 0.1
    results = restore_from_origins(image, model, RestoreOptions(sensor=PICTURE), (0, 112))
    shift = np.abs(results[0] - results[1])
    print(f"half a tile's shift changes the result by {shift.mean():.4f} on average, {shift.max():.4f} at most")
    assert shift.mean() < 0.01
    assert shift.max() < 0.1


def test_an_image_comes_back_as_what_it_came_as() -> None:
    array = noise("uint8", (3, 20, 30))
    expected = restore_array(array, Counting(0.5)).image
    across = restore_array(np.ascontiguousarray(array.transpose(1, 2, 0)), Counting(0.5), layout="hwc").image
    assert across.shape == (20, 30, 3)
    assert np.array_equal(across.transpose(2, 0, 1), expected)
    tensor = restore_array(torch.from_numpy(array)[None], Counting(0.5)).image
    assert isinstance(tensor, Tensor)
    assert tensor.shape == (1, 3, 20, 30)
    assert np.array_equal(tensor[0].numpy(), expected)
    assert restore_array(torch.from_numpy(array), Counting(0.5)).image.shape == (3, 20, 30)
    seen = Image.fromarray(np.dstack([*array, noise("uint8", (20, 30), 1)]))  # with what is opaque
    picture = restore_array(seen, Counting(0.5), clouds=np.ones((20, 30), bool)).image
    assert picture.mode == "RGBA"
    assert np.array_equal(np.asarray(picture)[..., :3].transpose(2, 0, 1), expected)
    assert np.array_equal(np.asarray(picture)[..., 3], np.asarray(seen)[..., 3])


@pytest.mark.parametrize(
    ("image", "layout", "text"),
    [
        (torch.zeros(2, 3, 9, 9, dtype=torch.uint8), "chw", "(1, C, H, W), got shape (2, 3, 9, 9)"),
        (Image.new("L", (9, 9)), "chw", "RGB or RGBA, got L"),
        (np.zeros((3, 9, 9), np.uint8), "bchw", "choose 'chw' or 'hwc'"),
    ],
)
def test_what_is_no_image_is_refused(image: Any, layout: Any, text: str) -> None:
    with pytest.raises(AttcrError) as caught:
        restore_array(image, Same(), layout=layout)
    assert text in str(caught.value)


def test_published_weights_are_taken_by_name() -> None:
    image = noise("uint8", (3, 32, 32))
    expected = restore_array(image, load_model("rgb-thin")).image
    assert np.array_equal(restore_array(image, "rgb-thin").image, expected)


def test_a_predictor_without_torch_restores() -> None:
    class Plain:
        spec = by_position(3)
        identity: ClassVar = {"weights_sha256": "none", "backend": "numpy"}

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x / 2

    image = noise("uint8", (3, 32, 40))
    assert np.array_equal(restore_array(image, Plain()).image, restore_array(image, Counting(0.5)).image)


def test_arrays_are_restored_without_rasterio_and_without_torch() -> None:
    code = """
import sys
for name in ("rasterio", "rio_cogeo", "pystac", "torch"):
    sys.modules[name] = None
import numpy as np
from attcr import restore_array
from attcr.bands.spec import TRUE_COLOUR

class Plain:
    spec = TRUE_COLOUR
    identity = {"weights_sha256": "none", "backend": "numpy"}

    def __call__(self, x):
        return x / 2

image = np.full((3, 20, 30), 100, np.uint8)
clouds = np.zeros((20, 30), np.uint8)
clouds[5, 5] = 1
out = restore_array(image, Plain(), clouds=clouds)
print(out.image[0, 5, 5], out.image[0, 19, 29], out.quality[5, 5])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["50", "100", "2"], done.stderr


def test_options_are_told_by_what_differs_from_the_defaults() -> None:
    plain = RestoreOptions(dtype="float32")
    assert plain.digest() == RestoreOptions(dtype="float32", device="cuda", batch=4).digest()
    assert plain.digest() != RestoreOptions(dtype="float32", dilate=9).digest()
    assert plain.digest() == hashlib.sha256(b'{"defaults": 4}').hexdigest()
    assert replace(plain, tile=512).digest() == hashlib.sha256(b'{"defaults": 4, "tile": 512}').hexdigest()
    assert RestoreOptions().digest() == hashlib.sha256(b'{"defaults": 4, "dtype": "auto"}').hexdigest()


def test_a_changed_default_is_counted() -> None:
    """A change of one of these makes results differ under one digest: raise `options.DEFAULTS` with it."""
    assert DEFAULTS == 4
    assert RestoreOptions().describe() == {
        "tile": 256,
        "overlap": 32,
        "dtype": "auto",
        "backend": "auto",
        "sensor": None,
        "bands": None,
        "bbox": None,
        "aoi": None,
        "mask": None,
        "ground": "scene",
        "unseen": "keep",
        "dilate": 8,
        "feather": 8,
        "radar": None,
        "nodata": None,
        "references": (),
        "reference_mask": None,
        "reference_fill": "network",
        "confidence": False,
    }


def hazy(bands: int) -> np.ndarray:
    """Give digital numbers of Sentinel-2 L2A, as many bands as asked for."""
    return (2000 + 500 * noise("float32", (bands, 40, 48))).astype(np.uint16)


def test_bands_are_found_by_name_and_others_stay() -> None:
    image, ask = hazy(4), RestoreOptions(sensor="s2-l2a")
    names = ("B08", "SCL", "B04", "B02")
    restored = restore_array(image, "s2-thin", bands=names, options=ask)
    assert np.array_equal(restored.image[1], image[1])
    assert all((restored.image[at] != image[at]).any() for at in (0, 2, 3))
    assert restored.spread is not None
    turned = restore_array(image[[3, 2, 0]], "s2-thin", bands=("blue", "red", "nir"), options=ask)
    assert np.array_equal(turned.image, restored.image[[3, 2, 0]])


def test_bands_by_name_come_out_as_a_scene_s(tmp_path: Path) -> None:
    image, names = hazy(3), ("B02", "B03", "B8A")
    path = tmp_path / "scene.tif"
    with rasterio.open(path, "w", "GTiff", 48, 40, 3, "EPSG:32633", from_origin(0, 0, 20, 20), "uint16") as file:
        file.write(image)
        file.descriptions = names
    ask = RestoreOptions(sensor="s2-l2a", mask="none")
    restore_scene(path, tmp_path / "out.tif", "s2-thin", options=ask)
    with rasterio.open(tmp_path / "out.tif") as file:
        assert np.array_equal(file.read(), restore_array(image, "s2-thin", bands=names, options=ask).image)


@pytest.mark.parametrize(
    ("bands", "sensor", "text"),
    [
        (("B02", "B03"), "s2-l2a", "`bands` is ('B02', 'B03') and the image has 3 bands"),
        ("B02", "s2-l2a", "`bands` is 'B02' and the image has 3 bands"),
        (("a", "b", "c"), "s2-l2a", "bands are a b c and the weights take"),
        (("B02", "B03", "B04"), "reflectance", "of the surface or of the top of the atmosphere"),
        (None, "s2-l2a", "has 3 bands and the network takes 13"),
    ],
)
def test_bands_that_do_not_fit_are_refused(bands: Any, sensor: str, text: str) -> None:
    with pytest.raises(AttcrError) as caught:
        restore_array(hazy(3), "s2-thin", bands=bands, options=RestoreOptions(sensor=sensor))
    assert text in str(caught.value)
