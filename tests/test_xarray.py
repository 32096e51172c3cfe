"""The xarray accessor."""

import numpy as np
import pytest
import torch

from attcr.errors import ShapeError
from attcr.restore import RestoreOptions, restore_array
from attcr.sensors import PICTURE
from fake_scenes import SENSORS, Counting, Same, Smooth, noise, smooth_picture

xr = pytest.importorskip("xarray", reason="extra xarray")
da = pytest.importorskip("dask.array", reason="extra xarray")
from attcr.xarray import RestoreAccessor  # noqa: E402  # registers itself


def labelled(values: np.ndarray, **chunks: int) -> "xr.DataArray":
    array = xr.DataArray(
        values,
        dims=("band", "y", "x"),
        coords={
            "band": ["red", "green", "blue"][: len(values)],
            "y": np.arange(values.shape[1]) * -10.0,
            "x": np.arange(values.shape[2]) * 10.0,
        },
        attrs={"crs": "EPSG:32633", "long_name": "reflectance"},
        name="scene",
    )
    array.encoding["scale_factor"] = 1e-4
    return array.chunk(chunks) if chunks else array


def test_everything_but_the_pixels_stays() -> None:
    array = labelled(noise("uint8", (3, 40, 50)))
    assert isinstance(array.attcr, RestoreAccessor)
    out = array.attcr.restore(Counting(0.5), options=RestoreOptions())
    assert out.dims == array.dims
    assert out.attrs == array.attrs
    assert out.encoding == array.encoding
    assert out.name == "scene"
    assert out.dtype == array.dtype
    for name in array.coords:
        assert out[name].equals(array[name])
    assert np.abs(out.values - array.values / 2.0).max() <= 0.5


def test_dims_in_any_order_and_fill_value_are_understood() -> None:
    array = labelled(noise("uint16", (3, 40, 50)) | 1).transpose("y", "x", "band")
    array.attrs["_FillValue"] = 7
    array[3, 4] = 7
    out = array.attcr.restore(Counting(0.0), options=RestoreOptions(sensor=SENSORS["uint16"]))
    assert out.dims == ("y", "x", "band")
    assert (out[3, 4] == 7).all()
    assert int((out == 0).sum()) == int((array != 7).sum())


@pytest.mark.parametrize("chunks", [{"y": 50, "x": 70}, {"y": 200, "x": 13}, {"band": 1, "y": 64, "x": 64}])
@pytest.mark.parametrize("masked", [False, True])
def test_a_dask_array_stays_lazy_and_gives_the_same_bits_as_a_whole(chunks: dict[str, int], masked: bool) -> None:
    values = smooth_picture(3, 150, 170)
    clouds = np.zeros((150, 170), np.uint8)
    clouds[60:70, 100:120] = 2
    clouds[140:, :3] = 1
    options = RestoreOptions(sensor=PICTURE, tile=48, overlap=12, dilate=5, feather=6)
    model = Smooth()
    torch.set_num_threads(1)
    whole = restore_array(values, model, clouds=clouds if masked else None, options=options).image
    array = labelled(values, **chunks)
    mask = xr.DataArray(clouds, dims=("y", "x"))
    out = array.attcr.restore(model, clouds=mask if masked else None, options=options)
    assert isinstance(out.data, da.Array)
    assert out.data.numblocks[1:] == array.data.numblocks[1:]
    assert np.array_equal(out.compute(scheduler="synchronous").values, whole)


def test_only_the_chunks_asked_for_are_run() -> None:
    model = Counting()
    array = labelled(noise("uint8", (3, 512, 512)), y=128, x=128)
    out = array.attcr.restore(model, options=RestoreOptions(tile=64, overlap=8))
    assert model.tiles == 0
    out[:, :10, :10].compute(scheduler="synchronous")
    assert 0 < model.tiles <= 9


def test_an_array_without_rows_and_columns_is_refused() -> None:
    with pytest.raises(ShapeError, match="Select one time"):
        xr.DataArray(np.zeros((2, 3, 4, 5)), dims=("time", "band", "y", "x")).attcr.restore(Same())


def test_bands_are_found_by_the_names_of_their_coordinate() -> None:
    values = (2000 + 500 * noise("float32", (3, 40, 48))).astype(np.uint16)
    options = RestoreOptions(sensor="s2-l2a", tile=48, overlap=12)
    expected = restore_array(values, "s2-thin", bands=("red", "green", "blue"), options=options).image
    for chunks in ({}, {"y": 40, "x": 20}):
        out = labelled(values, **chunks).attcr.restore("s2-thin", options=options)
        assert np.array_equal(out.values, expected)
    numbered = labelled(values).assign_coords(band=[1, 2, 3])
    with pytest.raises(ShapeError, match="3 bands and the network takes 13"):
        numbered.attcr.restore("s2-thin", options=options)
