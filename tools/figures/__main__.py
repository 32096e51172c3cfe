"""Draw all pictures of the documentation, or those that are named."""

import argparse
from collections.abc import Callable
from pathlib import Path

from . import charts, diagrams, gallery, network, rooms

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path, help="docs/figures")
parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="real images, see its README")
parser.add_argument("--landsat", type=Path, help="folder with the .tar.gz files of xlandsat's data/")
parser.add_argument("--only", nargs="*", default=[], help="names of functions")
chosen = parser.parse_args()
jobs: dict[str, tuple[Callable[..., None], tuple[Path, ...]]] = {
    f.__name__: (f, (chosen.folder,)) for f in (*diagrams.DRAWN, *charts.DRAWN, *rooms.DRAWN)
}
jobs |= {f.__name__: (f, (chosen.folder, chosen.data)) for f in network.DRAWN}
jobs |= {f.__name__: (f, (chosen.folder, chosen.data, chosen.landsat)) for f in gallery.DRAWN}
for name, (draw, arguments) in jobs.items():
    if not chosen.only or name in chosen.only:
        draw(*arguments)
        print(name)
