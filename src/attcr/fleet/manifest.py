"""What is to do: rows of scenes, read lazily from Parquet, STAC, a text list or a glob."""

from __future__ import annotations

import codecs
import glob
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import BaseError

from attcr.addresses import hide_secrets, is_local, redact
from attcr.errors import ManifestError
from attcr.files import replacing
from attcr.fleet.store import open_bucket, split_url
from attcr.references.correct import network_sha256

ROWS_AT_ONCE = 4096
ID_SHOWN = 4000
"""Characters of an id that cannot be one that are kept."""
MOST_MEGAPIXELS = 1e7
"""Of a scene: a row that says more is wrong, and would ask for blocks without end."""
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_PUNCTUATION = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]', re.DOTALL)
_FEATURES = re.compile(r'"features"\s*:\s*\[')
_COLLECTION = re.compile(r'\s*\{\s*"type"\s*:\s*"FeatureCollection"')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_DECODER = json.JSONDecoder()
_CHUNK = 1 << 20

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("hrefs", pa.list_(pa.string())),
        ("version", pa.string()),
        ("options", pa.string()),
        ("item", pa.string()),
        ("megapixels", pa.float64()),
    ]
)
"""A manifest's columns; all but id and hrefs (or href) may be absent."""


@dataclass(frozen=True)
class Work:
    """One scene to restore: a row of a manifest."""

    id: str
    hrefs: tuple[str, ...]
    version: str = ""
    """What identifies this content at its address: an ETag, a checksum, size and time."""
    options: str = ""
    """RestoreOptions of this scene alone, as JSON."""
    item: str = ""
    """The STAC item that the scene came as, as JSON."""
    megapixels: float | None = None
    problem: str = ""
    """Why this row cannot be run, if it cannot."""
    key: str = ""
    """A sha256 of input, weights and options: equal keys are equal work."""
    block: int = 0
    """Which block of a scene that is split; the one after the last stands for joining them."""
    blocks: int = 0
    """Blocks of the scene; 0 where it is not split."""

    def keyed(self, recipe: str) -> Work:
        """Give the same work with its key under a recipe, which stands for weights and options."""
        version = self.version or "\0".join(_stat(href) for href in self.hrefs)
        told = [recipe, self.id, version, _public(self.options), *(redact(href) for href in self.hrefs)]
        if named := _references(self.options):
            told += [*(_stat(href) for href in named), network_sha256()]
        if self.problem:  # what is refused must not shut out an equal row that is not
            told.append(f"refused: {self.problem}")
        return replace(self, key=hashlib.sha256("\0".join(told).encode(errors="replace")).hexdigest())


@dataclass(frozen=True)
class Survey:
    """The result of one pass over a manifest."""

    rows: int
    megapixels: float
    """Of the rows that say."""
    unsized: int
    """Rows that do not say how large they are."""
    repeated: frozenset[int]
    """Hashes, of this process, of ids that occur more than once."""


def survey(source: str) -> Survey:
    """Count a manifest's rows and find ids that occur twice; eight bytes a row are held."""
    megapixels, unsized = 0.0, 0

    def hashes() -> Iterator[int]:
        nonlocal megapixels, unsized
        for work in read_manifest(source):
            unsized += work.megapixels is None
            megapixels += work.megapixels or 0.0
            yield hash(work.id)

    ids, counts = np.unique(np.fromiter(hashes(), np.int64), return_counts=True)
    return Survey(int(counts.sum()), megapixels, unsized, frozenset(ids[counts > 1].tolist()))


def in_shard(work: Work, shard: tuple[int, int]) -> bool:
    """Say whether a scene belongs to shard i of n, counted from 0."""
    index, count = shard
    return count == 1 or zlib.crc32(work.id.encode(errors="replace")) % count == index


def read_manifest(source: str) -> Iterator[Work]:
    """Give a manifest's rows: Parquet, GeoParquet, stac-geoparquet, STAC (.json, .ndjson), a list (.txt), a glob.

    A row that cannot be run comes with its problem and stops no other. Rows are read as they are asked for.
    """
    if any(sign in redact(source) for sign in "*?[") and not (is_local(source) and Path(source).exists()):
        yield from _read_glob(source)
        return
    suffix = Path(redact(source)).suffix.lower()
    readers: dict[str, Callable[[str], Iterator[Work]]] = {
        ".parquet": _read_parquet,
        ".geoparquet": _read_parquet,
        ".json": _read_stac,
        ".geojson": _read_stac,
        ".ndjson": _read_stac_lines,
        ".jsonl": _read_stac_lines,
        ".txt": _read_list,
    }
    if is_local(source) and Path(source).is_dir():
        files = sorted(path for path in Path(source).rglob("*.parquet") if path.is_file())
        if not files:
            raise ManifestError(f"{source} is a folder without .parquet files: give a glob, such as '{source}/*.tif'.")
        readers[suffix] = lambda _: chain.from_iterable(_read_parquet(str(path)) for path in files)
    elif suffix not in readers:
        raise ManifestError(
            f"{redact(source)} is not a manifest: expected .parquet, .json, .ndjson, .txt, or a glob such as "
            "'in/*.tif'."
        )
    elif is_local(source) and not Path(source).is_file():
        raise ManifestError(f"{source} does not exist: check the path.")
    try:
        yield from readers[suffix](source)
    except (OSError, pa.ArrowException, BaseError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ManifestError(f"{redact(source)} cannot be read as a manifest: {hide_secrets(str(error))}") from error


def guarded(make: Callable[[Mapping[str, Any]], Work], row: Mapping[str, Any]) -> Work:
    """Give the row as work, whatever it holds."""
    try:
        return make(row)
    except Exception as error:
        name = row.get("id") if isinstance(row, Mapping) else ""
        return refused(
            f"The row cannot be read: {type(error).__name__}: {error}", name if isinstance(name, str) else ""
        )


def refused(problem: str, name: str = "") -> Work:
    """Give the work that a row stands for which cannot be run."""
    return Work(name[:ID_SHOWN], (), problem=problem[:1000])


def write_manifest(works: Iterator[Work], path: Path) -> None:
    """Write rows as Parquet, without signatures, holding no more than a batch of them."""
    with replacing(path) as unfinished, pq.ParquetWriter(unfinished, SCHEMA) as writer:
        while batch := [_row_of(work) for work in islice(works, ROWS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(batch, SCHEMA))


def _row_of(work: Work) -> dict[str, Any]:
    texts = {"id": work.id, "version": work.version, "options": _public(work.options), "item": _unsigned(work.item)}
    hrefs = [as_utf8(redact(href)) for href in work.hrefs]
    return {**{name: as_utf8(text) for name, text in texts.items()}, "hrefs": hrefs, "megapixels": work.megapixels}


def as_utf8(text: str) -> str:
    """Give a text that can be stored: JSON may hold halves of characters, which are spelled out."""
    return text.encode(errors="backslashreplace").decode()


def _public(options: str) -> str:
    """Give a row's options without secrets in the addresses that they may name: a mask, a radar raster."""
    return hide_secrets(options) if "://" in options or "/vsi" in options else options


def _references(options: str) -> list[str]:
    """Give the references that a row's options name: a local one that changed makes other work."""
    if "references" not in options:
        return []
    try:
        named = json.loads(options)["references"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    return [str(one) for one in named] if isinstance(named, list) else []


def _unsigned(text: str) -> str:
    """Give a STAC item without the signatures in its addresses."""
    if not text:
        return text
    item = json.loads(text)
    for address in (*item["assets"].values(), *(item.get("links") or ())):
        address["href"] = redact(str(address.get("href", "")))
    return json.dumps(item)


def work_of_item(item: Mapping[str, Any], folder: str = "") -> Work:
    """Give the work that a STAC item is; relative addresses are taken from `folder`."""
    assets = item.get("assets") or {}
    whole = dict(item)
    whole["assets"] = {
        name: {**asset, "href": _resolve(str(asset.get("href", "")), folder)} for name, asset in assets.items()
    }
    properties = item.get("properties") or {}
    hrefs = tuple(sorted(asset["href"] for asset in whole["assets"].values()))
    shapes = [(asset.get("proj:shape") or properties.get("proj:shape")) for asset in whole["assets"].values()]
    pixels = [shape[0] * shape[1] for shape in shapes if isinstance(shape, (list, tuple)) and len(shape) == 2]
    megapixels = max(pixels) / 1e6 if pixels else None
    version = str(properties.get("updated") or "")
    # Dates come out of GeoParquet as objects.
    return _checked(item.get("id"), hrefs, version, "", json.dumps(whole, default=str), megapixels)


def prune_item(work: Work, *, bands: Sequence[str] | None, mask: str | None) -> Work:
    """Give the work with only those assets of its item that hold the named bands and the mask, if all are found.

    A detector looks at bands that the network may not take: for one, all assets stay.
    """
    if not work.item or not bands or mask in ("csmask", "s2cloudless"):
        return work
    item = json.loads(work.item)
    if mask is None:
        brought = {key.lower() for key in item["assets"]} & {"scl", "qa_pixel", "qa"}
        if not brought:
            return work  # a detector will be chosen
        mask = "scl" if "scl" in brought else "qa_pixel"
    wanted = {name.lower() for name in bands}
    kept, seen = {}, set()
    for key, asset in item["assets"].items():
        described = asset.get("bands") or asset.get("eo:bands") or [{}]
        names = {str(described[0].get(field, "")).lower() for field in ("name", "common_name", "eo:common_name")}
        if len(described) == 1 and wanted & (names | {key.lower()}):
            kept[key] = asset
            seen |= names | {key.lower()}
    if len(kept) != len(wanted) or (mask == "auto" and not {"red", "green", "blue"} <= seen):
        return work
    kept |= {key: asset for key, asset in item["assets"].items() if key.lower() in (mask, "qa_pixel", "qa")}
    item["assets"] = kept
    return replace(work, item=json.dumps(item), hrefs=tuple(sorted(asset["href"] for asset in kept.values())))


def work_of_href(hrefs: Sequence[str], name: str, version: str = "") -> Work:
    """Give the work that a raster, or a set of band files, is."""
    return _checked(name, tuple(_resolve(href) for href in hrefs), version, "", "", None)


def default_id(href: str) -> str:
    """Give the id of a scene that only its address names: the last part of it, without its ending."""
    name = redact(href).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", Path(name).stem).lstrip(".-")[:200] or "_"


def _checked(
    given: object, hrefs: tuple[str, ...], version: str, options: str, item: str, megapixels: float | None
) -> Work:
    """Give the row as work; where it cannot be, with the problem."""
    name = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if given and not name:
        return refused(f"The id is of the type {type(given).__name__}: give text.")
    if not _ID.fullmatch(name):
        shown = hide_secrets(name[:ID_SHOWN])[:200]
        return refused(
            f"The id {shown!r} cannot name a file: use up to 200 letters, digits, '_', '-' and '.', and begin "
            "with a letter, a digit or '_'.",
            name,
        )
    if not hrefs:
        return refused("The row has no href: name the scene's file, or its band files.", name)
    for href in hrefs:
        if "\0" in href or as_utf8(href) != href:
            return refused(f"The address {redact(href)[:200]!r} is no text that can name a file: correct it.", name)
    if megapixels is not None and not 0 <= megapixels <= MOST_MEGAPIXELS:
        return refused(f"The row says {megapixels:g} megapixels: give 0 to {MOST_MEGAPIXELS:g}, or leave it out.", name)
    return Work(name, hrefs, version, options, item, megapixels)


def _work_of_row(row: Mapping[str, Any]) -> Work:
    hrefs = row.get("hrefs") or row.get("href") or ()
    hrefs = (hrefs,) if isinstance(hrefs, str) else tuple(str(href) for href in hrefs if href)
    options = row.get("options") or ""
    if not isinstance(options, str):
        options = json.dumps({key: value for key, value in options.items() if value is not None}, sort_keys=True)
    return _checked(
        row.get("id"),
        tuple(_resolve(href) for href in hrefs),
        str(row.get("version") or ""),
        options,
        str(row.get("item") or ""),
        None if row.get("megapixels") is None else float(row["megapixels"]),
    )


def _read_parquet(source: str) -> Iterator[Work]:
    with pq.ParquetFile(source if is_local(source) else _open(source)) as file:
        names = set(file.schema_arrow.names)
        stac = {"assets", "stac_version"} <= names
        if not stac and not ("id" in names and names & {"href", "hrefs"}):
            raise ManifestError(
                f"{redact(source)} has the columns {', '.join(sorted(names))}; expected id and href (or hrefs), or "
                "a stac-geoparquet table."
            )
        columns = None if stac else [name for name in (*SCHEMA.names, "href") if name in names]
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
            yield from _works_of_batch(batch, stac=stac)


def _works_of_batch(batch: pa.RecordBatch, *, stac: bool) -> Iterator[Work]:
    """Give the rows as work; where one holds what Python cannot, each is taken alone."""
    try:
        works = _rows_as_works(batch, stac=stac)
    except Exception as error:
        if len(batch) > 1:
            for at in range(len(batch)):
                yield from _works_of_batch(batch.slice(at, 1), stac=stac)
            return
        works = [refused(f"The row cannot be read: {type(error).__name__}: {error}", _id_alone(batch))]
    yield from works


def _rows_as_works(batch: pa.RecordBatch, *, stac: bool) -> list[Work]:
    if stac:
        from stac_geoparquet.arrow import stac_table_to_items

        return [guarded(work_of_item, row) for row in stac_table_to_items(pa.Table.from_batches([batch]))]
    return [guarded(_work_of_row, row) for row in batch.to_pylist()]


def _id_alone(batch: pa.RecordBatch) -> str:
    """Give the id of a batch's one row whatever its other columns hold; nothing where it is none."""
    try:
        return str(batch.column("id")[0].as_py() or "")
    except (KeyError, ValueError):
        return ""


def _folder_of(source: str) -> str:
    return str(Path(source).absolute().parent) if is_local(source) else redact(source).rpartition("/")[0]


def _read_stac_lines(source: str) -> Iterator[Work]:
    """Read an item a line; a line that is none stops no other."""
    make = partial(work_of_item, folder=_folder_of(source))
    with _open(source) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield refused(f"Line {number} is no STAC item: {error}")
                continue
            yield guarded(make, item)


def _read_stac(source: str) -> Iterator[Work]:
    """Read an ItemCollection or one item, holding one item at a time.

    What ends in the middle of an item is tried again when it has doubled, so the time grows with the length alone.
    """
    folder, utf8 = _folder_of(source), codecs.getincrementaldecoder("utf-8")()
    pieces: list[str] = []
    held, enough, inside = 0, 0, False
    with _open(source) as file:
        for data in chain(iter(partial(file.read, _CHUNK), b""), (b"",)):
            pieces.append(utf8.decode(data))
            held += len(pieces[-1])
            if held < enough and data:
                continue
            text, end = "".join(pieces), 0
            if not inside:
                start = _FEATURES.search(text)
                inside, end = bool(start), start.end() if start else 0
            if inside or not _COLLECTION.match(text):
                for work, after in _works_in(text, end, "]" if inside else ("]", "["), folder):
                    yield work
                    end = after
            end = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
            if inside and text.startswith("]", end):
                return
            pieces, held = [text[end:]], len(text) - end
            enough = 2 * held
    if held:
        raise ManifestError(f"{redact(source)} ends in the middle of an item: fetch it again.")


def _works_in(text: str, at: int, stop: str | tuple[str, str], folder: str) -> Iterator[tuple[Work, int]]:
    """Give the works of a text from a place on, each with where it ends, up to a sign or an item without its end."""
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text) or text.startswith(stop, at):
            return
        work, at = _next_work(text, at, folder)
        if work is None:
            return  # the rest of it comes later
        yield work, at


def _next_work(text: str, at: int, folder: str) -> tuple[Work | None, int]:
    """Give what stands at a place of a text as work, and where it ends; None where its end is not there yet."""
    try:
        item, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):  # unfinished, or wrong: its brackets tell
        end = _end_of_value(text, at)
        return (_refused_json(text[at:end]), end) if end else (None, at)
    if end == len(text) and not text.endswith(("}", "]", '"')):
        return None, at  # a number may continue
    return guarded(partial(work_of_item, folder=folder), item), end


def _refused_json(text: str) -> Work:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return refused(f"An item is no JSON: {type(error).__name__}: {error}")
    return refused("An item is no JSON.")


def _end_of_value(text: str, at: int) -> int:
    """Give where the brackets that stand at a place are all closed, or a word ends; 0 if it continues."""
    if not text.startswith(("{", "["), at):
        stop = re.compile(r"[,\]}]").search(text, at + 1)
        return stop.start() if stop else 0
    depth = 0
    for sign in _PUNCTUATION.finditer(text, at):
        depth += (sign[0] in "{[") - (sign[0] in "}]")
        if not depth:
            return sign.end()
    return 0


def _read_list(source: str) -> Iterator[Work]:
    """Read a scene a line; band files of one scene stand on one line with tabs between them."""
    with _open(source) as file:
        for line in file:
            try:
                hrefs = [href.strip() for href in line.decode().split("\t") if href.strip()]
            except UnicodeDecodeError as error:
                shown = line.removesuffix(b"\n")[:200]
                yield refused(f"The line {shown!r} is no UTF-8: {error}")
                continue
            if hrefs and not hrefs[0].startswith("#"):
                yield work_of_href(hrefs, default_id(hrefs[0]))


def _read_glob(pattern: str) -> Iterator[Work]:
    if is_local(pattern):
        for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207  # Path.glob takes no absolute pattern
            yield work_of_href((path,), default_id(path))
        return
    bucket, wanted = split_url(pattern)
    fixed = re.split(r"[*?\[]", wanted, maxsplit=1)[0].rpartition("/")[0]
    for href, version in list_bucket(bucket, fixed):
        if fnmatch(split_url(href)[1], wanted):
            yield work_of_href((href,), default_id(href), version)


def list_bucket(bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Give the address and version of everything under a prefix of a bucket."""
    try:
        for batch in obstore.list(open_bucket(bucket), prefix or None, chunk_size=1000):
            for entry in batch:
                yield f"{bucket}/{entry['path']}", str(entry["e_tag"] or f"{entry['size']} {entry['last_modified']}")
    except BaseError as error:
        raise ManifestError(f"{bucket}/{prefix} cannot be listed: {hide_secrets(str(error))}") from error


def _open(source: str) -> IO[bytes]:
    if is_local(source):
        return Path(source).open("rb")
    bucket, key = split_url(source)
    return io.BufferedReader(_Reader(obstore.open_reader(open_bucket(bucket), key)), _CHUNK)


class _Reader(io.RawIOBase):
    """An object of a bucket as a file of Python's, which pyarrow asks for."""

    def __init__(self, file: obstore.ReadableFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = bytes(self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _resolve(href: str, folder: str = "") -> str:
    """Give an address that means the same in any process."""
    if not is_local(href):
        return href
    return os.path.abspath(os.path.join(folder, href)) if "://" not in folder else f"{folder}/{href}"  # noqa: PTH100, PTH118  # 10 times faster than Path, for millions of rows


def _stat(href: str) -> str:
    """Give a local file's size and time, as `Scene.identity` does, or those of all files in a folder (SAFE)."""
    if not is_local(href):
        return ""
    try:
        if os.path.isdir(href):  # noqa: PTH112
            below = sorted(os.path.join(parent, name) for parent, _, names in os.walk(href) for name in names)  # noqa: PTH118
            return " ".join(f"{path} {_stat(path)}" for path in below)
        stat = os.stat(href)  # noqa: PTH116
    except (OSError, ValueError):  # not there, or no name of a file
        return ""
    return f"{stat.st_size} {stat.st_mtime_ns}"
