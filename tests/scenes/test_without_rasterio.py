"""What needs no rasterio works where it is not installed; the rest says what to install."""

import subprocess
import sys

import pytest

BLOCKED = ("rasterio", "rio_cogeo", "pystac")
BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_without(libraries: tuple[str, ...], code: str) -> str:
    """Run Python where these libraries cannot be imported and give the last line that it printed."""
    whole = BLOCK.format(blocked=libraries) + code
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_tiles_blending_and_masks_work_without_rasterio() -> None:
    code = """
import numpy as np
import attcr.bands.sensors
import attcr.scenes.blend
import attcr.scenes.clouds.brightness
import attcr.scenes.clouds.masks
import attcr.scenes.clouds.s2cloudless
import attcr.scenes.clouds.ukis_csmask
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.tiles import grid
classes = np.zeros((20, 20), np.uint8)
classes[4, 5] = 2
clouds = CloudMap(lambda top, bottom: classes[top:bottom], 20, Rim(1, 1))
weights = clouds.rows(0, 20).weights
print([len(clouds.cloudy_tiles(grid(20, 20, tile=8, overlap=0), row)) for row in (0, 12)], weights[4, 4:9].tolist())
"""
    assert run_without(BLOCKED, code) == "[1, 0] [1.0, 1.0, 1.0, 0.5, 0.0]"


def test_a_stack_of_images_is_filled_without_rasterio() -> None:
    code = """
import numpy as np
import attcr.references.choose
from attcr.restore import RestoreOptions
from attcr.restore.stack import fill_image
draw = np.random.default_rng(0)
ground = draw.uniform(1000, 3000, (2, 96, 96)).astype(np.uint16)
clouds = np.zeros((2, 96, 96), bool)
clouds[0, 40:50, 40:50] = True
seen = np.where(clouds[:1], 9000, ground).astype(np.uint16)
options = RestoreOptions(sensor="s2-l2a", dilate=0, feather=0)
filled = fill_image([seen, ground], clouds, [7, 3], 0, options)
print(np.abs(filled.image.astype(int) - ground).max() < 50, np.unique(filled.days[clouds[0]]), filled.quality[45, 45])
"""
    assert run_without(BLOCKED, code) == "True [-4] 6"


@pytest.mark.parametrize(
    ("library", "code"),
    [
        ("rasterio", "import attcr.scenes.dataset"),
        ("rasterio", "import attcr.scenes.scene"),
        ("rasterio", "import attcr.scenes.open"),
        ("rasterio", "import attcr.scenes.write"),
        ("rasterio", "import attcr.scenes.clouds.find"),
        ("rasterio", "import attcr.references.open"),
        ("rio-cogeo", "import attcr.scenes.open, attcr.scenes.write"),
        ("pystac", "import attcr.scenes.write; from attcr.scenes.open import open_scene; open_scene('item.json')"),
        (
            "scipy",
            "import numpy as np; from attcr.scenes.clouds.rim import Rim; Rim(1, 1).weights(np.ones((2, 2), 'uint8'))",
        ),
    ],
)
def test_what_needs_a_library_says_how_to_install_it(library: str, code: str) -> None:
    told = run_without((library.replace("-", "_"),), code)
    needed = f"{library} is needed here and is not installed. Run: pip install 'attcr[scenes]'"
    assert told == f"attcr.errors.MissingExtraError: {needed}"
