"""The xarray accessor."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attcr.bands.sensors import PICTURE, S2_L1C_BANDS
from attcr.errors import ConfigError, SceneError, ShapeError
from attcr.restore import RestoreOptions, restore_array
from fake_dates import a_gap, ground
from fake_scenes import SENSORS, Counting, Same, Smooth, noise, read, smooth_picture

xr = pytest.importorskip("xarray", reason="extra xarray")
da = pytest.importorskip("dask.array", reason="extra xarray")
import attcr.xarray as accessor  # noqa: E402  # registers itself
from attcr.xarray import RestoreAccessor  # noqa: E402


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


def dates(**chunks: int) -> "tuple[xr.DataArray, xr.DataArray, np.ndarray]":
    """Three dates of one place in other tones, two of them under a cloud, and the truth."""
    truth = ground(96, 128)
    shown = np.stack([truth, truth * 0.8 + 0.05, truth * 1.2])
    clouds = np.zeros((3, 96, 128), np.uint8)
    clouds[0][a_gap()] = 2
    clouds[1, :20, :20] = 1
    shown = np.where(clouds[:, None] > 0, 0.9, shown)
    when = np.array(["2020-06-01", "2020-06-11", "2020-05-02"], "datetime64[ns]")
    place = {"time": when, "y": np.arange(96) * -10.0, "x": np.arange(128) * 10.0}
    values = np.rint(shown * 10_000).astype(np.uint16)
    array = xr.DataArray(values, dims=("time", "band", "y", "x"), coords={**place, "band": list("abc")}, name="scene")
    mask = xr.DataArray(clouds, dims=("time", "y", "x"), coords=place)
    return (array.chunk(chunks) if chunks else array), mask, truth


FILL = RestoreOptions(sensor="s2-l2a", dilate=2, feather=2)


def test_each_date_is_filled_from_the_others() -> None:
    array, clouds, truth = dates()
    turned = array.transpose("y", "x", "time", "band")
    out = turned.attcr.restore(dim="time", clouds=clouds, options=FILL)
    assert set(out) == {"scene", "quality", "days"}
    assert out["scene"].dims == turned.dims
    assert out["scene"].dtype == array.dtype
    for name in array.coords:
        assert out[name].equals(array[name])
    scene = out["scene"].transpose("time", "band", "y", "x").values
    assert np.abs(scene[0] / 10_000 - truth)[:, a_gap()].mean() < 0.0003
    quality, days = out["quality"].values, out["days"].values
    assert set(quality[0][a_gap()]) == {6}
    assert set(days[0][a_gap()]) <= {-17, -16, -15, -14}  # a mixture of two dates, +10 and -30
    assert set(days[1, :20, :20].ravel()) <= set(range(-40, -9))
    untouched = quality == 1
    assert untouched[2].all()
    assert (days[untouched] == -32768).all()
    assert (scene.transpose(0, 2, 3, 1)[untouched] == array.values.transpose(0, 2, 3, 1)[untouched]).all()


def test_dates_of_dask_stay_lazy_and_a_task_holds_a_chunk_with_its_surroundings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array, clouds, truth = dates()
    whole = array.attcr.restore(dim="time", clouds=clouds, options=FILL)
    one_chunk = dates(time=1)[0].attcr.restore(dim="time", clouds=clouds.chunk(time=1), options=FILL)
    assert all(hasattr(one_chunk[name].data, "dask") for name in one_chunk)
    assert one_chunk.equals(whole)
    monkeypatch.setattr("attcr.xarray.NEAR", 10)
    shapes, fill = [], accessor._fill_block
    monkeypatch.setattr(
        accessor, "_fill_block", lambda images, *rest: shapes.append(images.shape) or fill(images, *rest)
    )
    parts = dates(time=1, y=50, x=60)[0].attcr.restore(dim="time", clouds=clouds, options=FILL)
    assert not shapes
    loaded = parts.compute(scheduler="synchronous")
    assert sorted(shapes)[:2] == [(3, 3, 56, 18), (3, 3, 56, 70)]
    assert max(rows * cols for *_, rows, cols in shapes) == 60 * 78
    assert loaded["quality"].equals(whole["quality"])
    assert np.abs(loaded["scene"].values[0] / 10_000 - truth)[:, a_gap()].mean() < 0.0006
    untouched = whole["quality"].values == 1
    assert (
        loaded["scene"].values.transpose(0, 2, 3, 1)[untouched] == array.values.transpose(0, 2, 3, 1)[untouched]
    ).all()


def test_the_published_network_corrects_real_dates(shared_data: Path) -> None:
    days = ("2018-06-10", "2018-06-25")
    truth = np.stack([read(shared_data / f"s2/series_l1c_roi146/{day}.tif")[:, :160, :160] for day in days])
    gap = np.zeros((2, 160, 160), bool)
    gap[0, 50:110, 50:110] = True
    place = {"time": np.array(days, "datetime64[ns]"), "band": list(S2_L1C_BANDS)}
    array = xr.DataArray(np.where(gap[:, None], 9000, truth), dims=("time", "band", "y", "x"), coords=place)
    clouds = xr.DataArray(gap, dims=("time", "y", "x"))
    filled = {}
    for method in ("network", "classical"):
        options = RestoreOptions(sensor="s2-l1c", dilate=0, feather=0, reference_fill=method)
        out = array.astype(np.uint16).attcr.restore(dim="time", clouds=clouds, options=options)
        assert (out["quality"].values == np.where(gap, 6, 1)).all()
        filled[method] = out["restored"].values[0].astype(float)
        assert (filled[method] == truth[0])[:, ~gap[0]].all()
    errors = {method: np.abs(values - truth[0])[:, gap[0]].mean() for method, values in filled.items()}
    assert errors["network"] < 0.97 * errors["classical"], errors


def test_clouds_of_dates_are_found_by_the_band_that_is_a_mask() -> None:
    array, clouds, _ = dates()
    scl = xr.where(clouds == 2, 9, xr.where(clouds == 1, 3, 4)).astype(np.uint16)
    named = array.assign_coords(band=["blue", "green", "red"])
    stack = xr.concat([scl.expand_dims(band=["SCL"]), named], "band").transpose(*array.dims).rename("scene")
    told = named.attcr.restore(dim="time", clouds=xr.where(clouds > 0, 2, 0), options=FILL)  # shadow as white as cloud
    found = stack.chunk(time=1).attcr.restore(dim="time", options=FILL)
    assert hasattr(found["scene"].data, "dask")
    assert found.equals(told)
    names = stack["band"].values.tolist()
    whole = accessor._found(stack.data, names, FILL)
    assert (whole == xr.where(clouds > 0, 2, 0).values).all()
    assert (accessor._found(stack.chunk(time=1, y=50, x=60).data, names, FILL).compute() == whole).all()


def test_dates_without_clouds_or_with_a_model_are_refused() -> None:
    array, clouds, _ = dates()
    with pytest.raises(ConfigError, match="give no weights"):
        array.attcr.restore("s2-thin", dim="time")
    with pytest.raises(SceneError, match="Give `clouds`, for none can be found"):
        array.attcr.restore(dim="time", options=FILL)
    with pytest.raises(ConfigError, match="No weights were given"):
        array.isel(time=0).attcr.restore()
    with pytest.raises(ShapeError, match="there is no 'when'"):
        array.attcr.restore(dim="when", clouds=clouds)
    with pytest.raises(ShapeError, match="clouds has dims"):
        array.attcr.restore(dim="time", clouds=clouds[0])
