"""`DATASETS`: each data set by its name, with all that loading, scoring and training must know of it.

A new one is a file that opens it, a list of its parts in `splits/`, and an entry here.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from attcr.bands.sensors import PICTURE, RGB, RGB8
from attcr.bands.spec import CLOUDS, SEN12MSCR, TRUE_COLOUR, InputSpec, band_slots
from attcr.data import dates, sen12mscr
from attcr.data.pairs import PairFolder, Samples, Transform
from attcr.data.pictures import RICE1, RICE2, TCLOUD, ListedPictures
from attcr.data.splits import PARTS, load_split, names_sha256, shipped_splits
from attcr.errors import ConfigError

ALL = "all"
"""The part that is everything, of a set without lists."""
ERROR_LEFT = "error-left"
"""The protocol that training validates weights under which expect their error: the error, as a share of what it is
without the network."""


@dataclass(frozen=True)
class PaperScores:
    """The paper's row for a data set, and what must be said when ours is put beside it."""

    scores: Mapping[str, float]
    """By metric, under the set's own protocol."""
    size: int
    """Pixels a side of the images as published."""
    split: str = ""
    """How the paper's test images relate to ours; empty when they are the same."""


@dataclass(frozen=True)
class DataSet:
    """One data set: how it is opened, what its planes are, how it is scored."""

    name: str
    about: str
    """What is in it, in a few words."""
    spec: InputSpec
    """What its samples hold, and so what weights trained on it take and give."""
    opener: Callable[..., Samples]
    """Takes (root, part, transform=..., cache=...)."""
    obtain: str
    """Where to get it, and the layout under the root."""
    parts: tuple[str, ...] = PARTS
    """What it is divided into; none for a set without lists."""
    protocol: str = "att-cr"
    """The protocol that it is scored under where none is named."""
    levels: float = 255.0
    """The digital number where a protocol's value is 1: how predictions stored as integers are read."""
    one: float | None = None
    """The samples' number where a protocol's value is 1; None is the span of the spec."""
    paper: PaperScores | None = None
    cloudy: bool = True
    """Whether its inputs have cloud. Else they are clear dates of one place, which the user may pair."""

    def open(
        self,
        root: str | os.PathLike[str],
        part: str = "test",
        *,
        transform: Transform | None = None,
        cache: bool = False,
    ) -> Samples:
        """Open one of its parts; `cache` holds the decoded images in memory."""
        if self.parts and part not in self.parts:
            raise ConfigError(f"{self.name} has no part {part!r}; it has {', '.join(self.parts)}")
        return self.opener(root, part, transform=transform, cache=cache)

    @property
    def peak(self) -> float:
        """The samples' number where a protocol's value is 1."""
        return self.spec.span if self.one is None else self.one

    @property
    def listed(self) -> bool:
        """Whether lists of its parts are shipped."""
        return self.name in shipped_splits()

    def lists(self) -> dict[str, Sequence[str]]:
        """Give the shipped lists by part; none where none are shipped."""
        return {part: load_split(self.name, part).names for part in self.parts} if self.listed else {}

    def part_sha256(self, part: str, samples: Samples) -> str:
        """Give the sha256 of the list that names a part: the one in the package, or one made from the names."""
        return load_split(self.name, part).sha256 if self.listed else names_sha256(samples.names)

    def told(
        self,
        *,
        slots: Sequence[str] = (),
        gsd: float | None = None,
        removes: Sequence[str] = (),
        hold_out: Sequence[str] = (),
        pairs: Sequence[tuple[str, str]] = (),
    ) -> "DataSet":
        """Give a set of the user's own images with what only the user knows about them; other sets know it themselves.

        `slots` are the bands by their common names, in order; `gsd` is in metres; `removes` is the cloud that is
        there; images whose names begin with one of `hold_out` are its part `val`, the others its part `train`.
        `pairs` are dates to fill and dates to fill them from.
        """
        if pairs and self.opener is not dates.ClearDates:
            raise ConfigError(f"{self.name} has no dates to choose pairs of: leave out pair")
        if pairs:
            return replace(self, opener=partial(self.opener, pairs=tuple(pairs)))
        if not (slots or gsd or removes or hold_out):
            return self
        if self.parts:
            raise ConfigError(
                f"{self.name} says itself what its bands and parts are: leave out slots, gsd and hold_out"
            )
        spec = self.spec
        if slots:
            spec = picture_spec(spec, slots)
        if gsd:
            spec = replace(spec, gsd=(gsd, gsd))
        if removes:
            spec = replace(spec, removes=tuple(removes))
        return replace(self, spec=spec, opener=partial(self.opener, spec=spec, hold_out=tuple(hold_out)))


def picture_spec(spec: InputSpec, names: Sequence[str]) -> InputSpec:
    """Give the spec for 8-bit pictures of other bands, by their common names.

    True colour of any product can be shown as a picture; how other bands were stretched is known for pictures alone.
    """
    if set(names) <= set(RGB):
        return replace(spec, slots=band_slots(names, high=spec.bands[0].high), outputs=tuple(names))
    return replace(spec, slots=band_slots(names), outputs=tuple(names), products=(RGB8.name, PICTURE.name))


def find_set(name: str) -> DataSet:
    """Give the data set of a name, as a command line spells it: one of DATASETS, or MODULE:NAME of a `DataSet`."""
    module, colon, attribute = name.partition(":")
    if colon:
        return _imported(module, attribute)
    if name not in DATASETS:
        raise ConfigError(f"no data set {name!r}; there are {', '.join(DATASETS)}, and MODULE:NAME of your own")
    return DATASETS[name]


def _imported(module: str, attribute: str) -> DataSet:
    """Give a data set that is not ours; the folder one is in counts, as for `python -m`."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"data set {module}:{attribute}: {error}; expected a module that Python finds from {here}"
        ) from error
    if not isinstance(found, DataSet):
        raise ConfigError(f"data set {module}:{attribute} is {found!r:.80}; expected an attcr.data.DataSet")
    return found


def open_pairs(
    root: str | os.PathLike[str],
    part: str = ALL,
    *,
    folders: tuple[str, str] = ("cloudy", "clear"),
    spec: InputSpec = TRUE_COLOUR,
    hold_out: tuple[str, ...] = (),
    transform: Transform | None = None,
    cache: bool = False,
) -> PairFolder:
    """Open two folders of the user's own images, whole or one of the parts train and val.

    The part val is what `hold_out` names, else the last tenth by name: tiles of one scene are mostly neighbours there,
    and few scenes are in both parts.
    """
    sides = Path(root, folders[0]), Path(root, folders[1])
    names = None
    if part in ("train", "val"):
        every = PairFolder(*sides).names
        held = [name for name in every if name.startswith(hold_out)] if hold_out else every[-max(len(every) // 10, 1) :]
        names = held if part == "val" else [name for name in every if name not in set(held)]
        if not names:
            raise ConfigError(f"{root}: hold_out={hold_out or 'the last tenth'} leaves no {part} image")
    return PairFolder(*sides, transform, names=names, spec=spec, cache=cache)


def _pictures(
    kind: type[ListedPictures], about: str, scores: Mapping[str, float], size: int, split: str = ""
) -> DataSet:
    paper = PaperScores(scores, size, split)
    return DataSet(kind.dataset, about, kind.planes, kind, kind.obtain, paper=paper)


def _two_dates(name: str, about: str, spec: InputSpec, protocol: str) -> DataSet:
    """Give the entry of a set of two dates; it is reflectance, and has one part, which is not trained on."""
    return DataSet(
        name,
        about,
        spec,
        partial(dates.open_dates, name=name),
        dates.HOW_TO_OBTAIN[name],
        parts=("test",),
        protocol=protocol,
        levels=10000.0,
        one=dates.ONE_REFLECTANCE,
    )


DATASETS: dict[str, DataSet] = {
    data.name: data
    for data in (
        _pictures(
            RICE1,
            "thin cloud over true colour, 512 px pictures",
            {"psnr": 36.83, "ssim": 0.9629, "mae": 0.0135, "sam": 0.91},
            512,
            "the paper names no list; SpA-GAN's, which is used here, is very probably the one it used",
        ),
        _pictures(
            RICE2,
            "thick cloud over false colour of Landsat 8, 512 px pictures",
            {"psnr": 36.72, "ssim": 0.9183, "mae": 0.0149, "sam": 1.16},
            512,
            "the paper's 588/147 split was not published: this is another random split of the same images",
        ),
        _pictures(
            TCLOUD,
            "thin cloud over true colour of Landsat 8, 256 px pictures",
            {"psnr": 31.12, "ssim": 0.8908, "mae": 0.0226, "sam": 2.31},
            256,
        ),
        DataSet(
            "sen12mscr",
            "Sentinel-1 and cloudy Sentinel-2, clear Sentinel-2, 256 px patches",
            SEN12MSCR,
            sen12mscr.open_patches,
            sen12mscr.HOW_TO_OBTAIN,
            protocol="att-cr-sen12",
            levels=10000.0,
            paper=PaperScores({"psnr": 29.97, "ssim": 0.902, "mae": 0.024, "sam": 7.484}, 256),
        ),
        DataSet(
            "pairs",
            "your own 8-bit pictures",
            replace(TRUE_COLOUR, removes=CLOUDS),
            open_pairs,
            "ROOT holds two folders, cloudy and clear, with images of equal names",
            parts=(),
        ),
        _two_dates("cloudsen12", "two dates of Sentinel-2 L1C with masks by experts", dates.L1C_SPEC, "two-dates"),
        _two_dates("sen12mscr-pairs", "pairs of SEN12MS-CR in files of their own", dates.L1C_SPEC, "two-dates"),
        _two_dates("sen12mscrts-146", "a place of SEN12MS-CR-TS on four dates", dates.L1C_SPEC, "two-dates"),
        _two_dates("haze-20lmr", "haze over Rondonia, L2A, ten bands", dates.L2A_TEN_SPEC, "two-dates-raw"),
        DataSet(
            "dates",
            "your own clear dates of one place, to fill gaps from one another",
            dates.L1C_SPEC,
            dates.ClearDates,
            "ROOT holds a .tif for each date, all on one grid",
            parts=("test",),
            protocol="gap-fill",
            levels=10000.0,
            one=1.0,
            cloudy=False,
        ),
        DataSet(
            "cube",
            "a cube that `attcr cube` made, to hide and fill what it saw",
            dates.L1C_SPEC,
            dates.CubeFolder,
            "ROOT is a cube that attcr cube made",
            parts=("test",),
            protocol="series",
            one=1.0,
            cloudy=False,
        ),
    )
}
"""By the name that `--data` and the sources of a training use; `find_set` takes others by MODULE:NAME."""
