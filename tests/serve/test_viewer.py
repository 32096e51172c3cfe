import json
import re
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
import rasterio
from PIL import Image
from starlette.testclient import TestClient

from attcr.restore.walk import QUALITY_COLOURS, QUALITY_NAMES
from attcr.serve.viewer import FOLDER, MAPLIBRE, POLICY
from browsers import PATIENCE, browses, empty_page, has_browser
from fake_scenes import UTM
from fake_services import KEYS, QUICK, begin, command, ended, quick_server, tiff

MAPLIBRE_FILES = {
    "LICENSE.txt": "ee5fc05a0677eaf69601d2c7db0d9ecd6cc27c3abc1d0733bc9ed34707cf8ef2",
    "maplibre-gl-worker.mjs": "73d7a024a4efe1a46e49db193e18cfe33271e3ecc652ec7542c281a4ef5f0f04",
    "maplibre-gl.css": "a90798a1953017790e590f7e1bd35ff103a8a4263972cb47290b78adf86f8c20",
    "maplibre-gl.mjs": "e02cb08c572fd0950a75343cd558099c2a1dbbaf67f26b0c96f115431962d1ae",
}
"""sha256 of what `npm pack maplibre-gl@6.17.0` gives."""
PLACE = {"x": 420, "y": 250}
"""Of the map: on the scene, and beside the slider's handle."""


def test_maplibre_is_as_npm_has_it() -> None:
    folder = FOLDER / MAPLIBRE
    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == MAPLIBRE_FILES
    assert f"/v{MAPLIBRE.rpartition('-')[2]}/" in (folder / "maplibre-gl.mjs").read_text()[:300]


def test_the_page_names_no_other_site() -> None:
    own = [path for path in FOLDER.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    assert {path.name for path in own} >= {"index.html", "viewer.css", "main.js"}
    for path in own:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(?m)^\s*//.*$|(?<=[;,]) // .*$| // .*$", "", text), path.name


def test_every_control_of_the_page_has_a_name() -> None:
    page = (FOLDER / "index.html").read_text()
    labelled = set(re.findall(r'<label[^>]* for="([^"]+)"', page))
    for tag in re.findall(r"<(?:input|select|progress)[^>]*>", page):
        (name,) = re.findall(r' id="([^"]+)"', tag)
        wrapped = re.search(rf'<label[^>]*><input[^>]* id="{name}"', page)
        assert name in labelled or "aria-label" in tag or wrapped, tag


def test_the_page_is_served_with_its_types_and_policy(server: TestClient) -> None:
    page = server.get("/viewer/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY
    assert page.headers["cache-control"] == "no-cache"
    script = server.get(f"/viewer/{MAPLIBRE}/maplibre-gl.mjs")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    kept = {"If-None-Match": server.get("/viewer/main.js").headers["etag"]}
    assert server.get("/viewer/main.js", headers=kept).status_code == 304
    links = {link["href"]: link["type"] for link in server.get("/").json()["links"]}
    assert links[f"{str(server.base_url).rstrip('/')}/viewer/"] == "text/html"


@pytest.mark.parametrize("path", ["__init__.py", "nothing.js", "..%2fapp.py", "%2e%2e/app.py", "__pycache__"])
def test_only_the_page_is_served(server: TestClient, path: str) -> None:
    assert server.get(f"/viewer/{path}").status_code == 404


def test_the_page_itself_needs_no_key(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store", keys=True) as client:
        assert client.get("/viewer/").status_code == 200
        assert client.get("/jobs").status_code == 401


def hazy(path: Path, size: int = 192) -> np.ndarray:
    """Write fields under a bright haze, with a place, as a picture."""
    rows, cols = np.mgrid[:size, :size]
    fields = 50 + 40 * (((rows // 24) + (cols // 24)) % 2)
    haze = 110 * np.exp(-((rows - size / 2) ** 2 + (cols - size / 2) ** 2) / (2 * (size / 5) ** 2))
    bands = np.stack([np.clip(fields * part + haze, 1, 255) for part in (1.0, 1.2, 0.8)]).astype(np.uint8)
    profile = {"count": 3, "height": size, "width": size, "dtype": "uint8", "photometric": "RGB", **UTM}
    with rasterio.open(path, "w", driver="GTiff", **profile) as file:
        file.write(bands)
    return bands


@contextmanager
def page_of(url: str, **settings: Any) -> Iterator[Any]:
    """The viewer in Chromium, which reaches this machine alone; at the end, what it did wrong."""
    with empty_page(**settings) as page:
        page.goto(f"{url}/viewer/")
        page.wait_for_selector("#weights option[value=none]", state="attached")
        yield page
        outside = [address for address in page.asked if not address.startswith((url, f"blob:{url}", "data:"))]
        assert not outside, f"the page asked for {outside}"


def drop(page: Any, *paths: Path) -> None:
    """Drop files on the map, as a hand does."""
    devtools = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 700, "y": 300, "data": data})
        if kind == "dragOver":
            page.wait_for_selector("#drop-veil", state="visible")
    page.wait_for_selector("#drop-veil", state="hidden")


def colour_of(page: Any) -> tuple[int, ...]:
    """The colour at the place."""
    box = page.locator("#map").bounding_box()
    clip = {"x": box["x"] + PLACE["x"] - 2, "y": box["y"] + PLACE["y"] - 2, "width": 4, "height": 4}
    picture = Image.open(BytesIO(page.screenshot(clip=clip))).convert("RGB")
    return tuple(int(value) for value in np.asarray(picture).reshape(-1, 3).mean(axis=0))


def becomes(page: Any, colour: tuple[int, ...], *, same: bool = True) -> None:
    """Wait until the place has, or has not, a colour."""
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until:
        seen = colour_of(page)
        if (max(abs(a - b) for a, b in zip(seen, colour, strict=True)) <= 3) == same:
            return
        time.sleep(0.2)
    raise AssertionError(f"the place is {seen}; expected {'' if same else 'not '}{colour}")


def table(page: Any) -> list[list[str]]:
    return [line.locator("th, td").all_inner_texts() for line in page.locator("#inspector tbody tr").all()]


@browses
def test_from_drop_to_swipe(tmp_path: Path, record_property: Any) -> None:
    came = hazy(tmp_path / "hazy.tif")
    with command(tmp_path / "store", "--weights", "rgb-thin", "--threads", "1") as (_, url), page_of(url) as page:
        drop(page, tmp_path / "hazy.tif")
        page.wait_for_selector("#progress-section", state="visible")
        assert page.inner_text("#progress-name") == "hazy.tif"
        page.wait_for_selector("#swipe", state="visible")
        assert page.is_hidden("#message")
        page.wait_for_selector("#progress-section", state="hidden")
        assert page.inner_text("#scene-name") == "hazy.tif"
        assert "hazy.tif is shown" in page.inner_text("#live")

        page.click("#after canvas", position=PLACE)
        page.wait_for_selector("#inspector", state="visible")
        row, col = (int(number) for number in re.findall(r"row (\d+), column (\d+)", page.inner_text("#inspector"))[0])
        shown, kind = table(page), page.inner_text("#inspector .class").strip()
        assert [line[1] for line in shown] == [str(value) for value in came[:, row, col]]
        client = httpx.Client(base_url=url, timeout=60)
        job = client.get("/jobs").json()["jobs"][0]["jobID"]
        with rasterio.open(BytesIO(client.get(f"/jobs/{job}/results/restored").content)) as file:
            assert [line[2] for line in shown] == [str(value) for value in file.read()[:, row, col]]
        assert kind in QUALITY_NAMES
        assert kind in page.inner_text("#live")
        page.keyboard.press("Escape")
        assert page.is_hidden("#inspector")
        page.focus("#after canvas")
        page.keyboard.press("Enter")  # the pixel in the middle, without a mouse
        page.wait_for_selector("#inspector", state="visible")

        colour = QUALITY_COLOURS[QUALITY_NAMES.index(kind)][:3]
        page.focus("#swipe")
        page.keyboard.press("Home")
        assert page.get_attribute("#swipe", "aria-valuetext") == "0 % before, 100 % after"
        becomes(page, colour, same=False)
        page.check("#quality")
        page.fill("#opacity", "100")
        legend = page.inner_text("#legend")
        assert kind in legend
        assert "%" in legend
        page.focus("#swipe")
        page.keyboard.press("End")
        becomes(page, colour, same=False)
        for _ in range(3):
            page.keyboard.press("PageDown")
        page.keyboard.press("ArrowLeft")
        assert page.get_attribute("#swipe", "aria-valuetext") == "69 % before, 31 % after"
        page.keyboard.press("Home")
        becomes(page, colour)

        with page.expect_download() as saved:
            page.click("#downloads >> text=Restored scene")
        assert saved.value.suggested_filename.endswith(".tif")
        page.click("#theme")
        assert page.get_attribute("html", "data-theme") == "dark"
        took = page.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.includes('/tiles/')).map(e => e.duration)"
        )
        assert len(took) > 3
        record_property("tile_ms_p95", float(np.percentile(took, 95)))
        print(f"{len(took)} tiles: median {np.median(took):.0f} ms, p95 {np.percentile(took, 95):.0f} ms")

        page.click("#jobs >> text=Remove")
        page.click("#confirm >> text=Remove it")
        page.wait_for_selector("#swipe", state="hidden")
        page.wait_for_selector("#no-jobs", state="visible")
        assert client.get(f"/jobs/{job}").json()["status"] == "dismissed"
        assert not page.told, page.told


@browses
def test_a_key_is_asked_for_and_kept_in_the_tab_alone(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("".join(f"{name} {key}\n" for name, key in KEYS.items()))
    (tmp_path / "notes.txt").write_text("no raster")
    (tmp_path / "fail.tif").write_bytes(tiff())
    with (
        command(tmp_path / "store", "--weights", "rgb-thin", "--keys", str(keys), worker=QUICK) as (_, url),
        page_of(url, color_scheme="dark") as page,
    ):
        assert page.get_attribute("html", "data-theme") == "dark"
        page.wait_for_selector("#key-form", state="visible")
        page.fill("#key", "not-a-key-of-anyone")
        page.keyboard.press("Enter")
        page.wait_for_selector("#message", state="visible")
        assert "API key" in page.inner_text("#message")
        page.fill("#key", KEYS["ada"])
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-form", state="hidden")
        assert page.is_hidden("#message")
        assert page.evaluate("Object.values(sessionStorage)") == [KEYS["ada"]]
        assert page.evaluate("Object.values(localStorage)") == []
        assert page.evaluate("document.cookie") == ""

        page.set_input_files("#file", tmp_path / "notes.txt")
        page.wait_for_selector("#message", state="visible")
        assert "raster" in page.inner_text("#message") or "TIFF" in page.inner_text("#message")
        page.set_input_files("#file", tmp_path / "fail.tif")
        page.wait_for_selector("#jobs .failed")
        page.wait_for_function("document.querySelector('#message-text').textContent.includes('not to be restored')")
        assert str(tmp_path) not in page.inner_text("body")

        client = httpx.Client(base_url=url, headers={"X-API-Key": KEYS["ada"]}, timeout=60)
        job = begin(client, tiff(64), "kept.tif")
        assert ended(client, job)["status"] == "successful"
        page.reload()
        page.click("#jobs >> text=Show")
        page.wait_for_selector("#swipe", state="visible")  # tiles and facts come with the key
        with page.expect_download() as saved:
            page.click("#downloads >> text=Quality")
        assert saved.value.suggested_filename == "kept_quality.tif"
        page.click("#forget-key")
        page.wait_for_selector("#key-form", state="visible")
        assert page.evaluate("sessionStorage.length") == 0


BANDS = {"B02": 500, "B03": 700, "B04": 300, "B08": 5700, "B11": 1500}
"""Of plants: their NDVI is 0.9."""


def write_bands(folder: Path, stem: str) -> list[Path]:
    """Write bands as downloaded: JPEG 2000, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for band, value in BANDS.items():
        values = np.full((1, 64, 64), value, np.uint16)
        values[0, ::7] += 9
        profile = {"count": 1, "height": 64, "width": 64, "dtype": "uint16", "QUALITY": "100", "REVERSIBLE": "YES"}
        made.append(folder / f"{stem}_{band}_10m.jp2")
        with rasterio.open(made[-1], "w", driver="JP2OpenJPEG", **profile, **UTM) as file:
            file.write(values)
    return made


def opened(page: Any, client: httpx.Client, name: str) -> dict[str, Any]:
    """Wait until a scene is shown; give what is known of the newest job's."""
    page.wait_for_selector(f"#scene-name >> text={name}")
    page.wait_for_selector("#swipe", state="visible")
    (newest, *_) = client.get("/jobs").json()["jobs"]
    info: dict[str, Any] = client.get(f"/jobs/{newest['jobID']}/info").json()
    return info


@has_browser
def test_bands_dropped_together_are_one_job(tmp_path: Path) -> None:
    bands = write_bands(tmp_path, "T33UXR_20200101T100031")
    with command(tmp_path / "store", "--weights", "rgb-thin", worker=QUICK) as (_, url), page_of(url) as page:
        drop(page, *bands)
        page.wait_for_selector("#jobs li")
        jobs = httpx.get(f"{url}/jobs", timeout=60).json()["jobs"]
    assert len(jobs) == 1
    assert jobs[0]["title"].startswith("T33UXR_20200101T100031_B02")


@browses
def test_products_as_downloaded_are_shown_in_natural_colour_and_as_ndvi(tmp_path: Path) -> None:
    """Five JPEG 2000 files, and a zip of a SAFE folder in which there is a mask too."""
    stem = "T33UXR_20200101T100031"
    bands = write_bands(tmp_path, stem)
    safe = "S2B_MSIL2A_20200101T100031_N0213_R122_T33UXR_20200101T120000.SAFE"
    with zipfile.ZipFile(tmp_path / f"{safe}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in bands:
            archive.write(path, f"{safe}/GRANULE/L2A_T33UXR/IMG_DATA/R10m/{path.name}")
        archive.write(bands[0], f"{safe}/GRANULE/L2A_T33UXR/QI_DATA/MSK_CLDPRB_20m.jp2")
    with (
        command(tmp_path / "store", "--weights", "rgb-thin", worker=QUICK) as (_, url),
        page_of(url) as page,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for number, dropped in enumerate((bands, [tmp_path / f"{safe}.zip"]), 1):
            drop(page, *dropped)
            page.wait_for_selector(f"#jobs li:nth-child({number})")
            info = opened(page, client, f"{stem}_B02_10m.jp2")
            assert info["bands"] == list(BANDS)
            assert info["shows"]["ndvi"] == ["B08", "B04"]
        page.focus("#swipe")
        page.keyboard.press("Home")
        green = (0, 104, 55)
        becomes(page, green, same=False)
        page.select_option("#colours", "ndvi")
        becomes(page, green)
        page.select_option("#colours", "true")
        becomes(page, green, same=False)
        assert not page.told, page.told


@browses
def test_the_sample_is_tried_and_a_date_is_added_where_cloud_is_left(tmp_path: Path) -> None:
    for name in ("cloudy.tif", "before.tif"):
        (tmp_path / name).write_bytes(tiff(64))
    with (
        command(tmp_path / "store", "--weights", "rgb-thin", worker=QUICK) as (_, url),
        page_of(url) as page,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        page.click("#sample")
        assert opened(page, client, "sample.tif")["width"] > 0
        assert page.is_hidden("#dates")
        drop(page, tmp_path / "cloudy.tif")
        opened(page, client, "cloudy.tif")
        page.wait_for_selector("#dates", state="visible")
        assert page.inner_text("#dates-text") == "90 % is still cloud."
        page.set_input_files("#date", tmp_path / "before.tif")
        page.wait_for_selector("#jobs li:nth-child(3)")
        (newest, *_) = client.get("/jobs").json()["jobs"]
        assert newest["title"] == "cloudy.tif"
        refs = json.loads((tmp_path / "store" / "requests" / f"{newest['jobID']}.json").read_text())["asked"]["refs"]
        assert [ref["slot"] for ref in refs] == ["scene", "references"]


@browses
def test_a_scene_that_does_not_say_its_product_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "unnamed.tif").write_bytes(tiff(64, bands=4, dtype="uint16"))
    with (
        command(tmp_path / "store", "--weights", "s2-thin", "--threads", "1") as (_, url),
        page_of(url) as page,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        drop(page, tmp_path / "unnamed.tif")
        page.wait_for_selector("#which", state="visible")
        assert "unnamed.tif does not say which product it is" in page.inner_text("#product-text")
        chosen = page.input_value("#product")
        page.click("#which button[value=yes]")
        page.wait_for_selector("#which", state="hidden")
        until = time.monotonic() + PATIENCE / 1000
        sensors: list[str | None] = []
        while sensors != [chosen]:  # the job that failed goes
            assert time.monotonic() < until, sensors
            time.sleep(0.2)
            kept = [
                tmp_path / "store" / "requests" / f"{one['jobID']}.json" for one in client.get("/jobs").json()["jobs"]
            ]
            asked = [json.loads(path.read_text())["asked"] for path in kept]
            sensors = [one["options"].get("sensor") for one in asked if one["refs"]]
