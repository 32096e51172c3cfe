"""What was done: small Parquet files, one row an outcome. The truth is the item of each scene; this is the log."""

import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from attcr.addresses import hide_secrets
from attcr.errors import warn
from attcr.fleet.manifest import ID_SHOWN, as_utf8
from attcr.fleet.store import Scratch, Store

FOLDER = "ledger"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("work", pa.string()),
        ("recipe", pa.string()),
        ("status", pa.string()),
        ("seconds", pa.float64()),
        ("megapixels", pa.float64()),
        ("attempts", pa.int32()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("worker", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
    ]
)
Status = Literal["done", "found", "quarantined", "lost", "requeued", "block"]
"""done: restored now. found: its item was there. lost: a process died at it. requeued: asked for again.
block: some rows of a scene are restored, which no ledger records."""
DONE = ("done", "found")
_KNOWN = get_args(Status)
_LAST_MICROSECOND = 253_402_300_800_000_000  # of the year 9999, where Python's dates end
_SHORTEST, _LONGEST = 2.0, 600.0  # seconds between two files: 5 % of the time so far, within these


@dataclass(frozen=True)
class Outcome:
    """What became of one scene."""

    id: str
    work: str
    """The key of the work, see `Work.key`."""
    status: Status
    seconds: float = 0.0
    megapixels: float = 0.0
    attempts: int = 0
    error: str = ""
    """Class of the error, if there was one."""
    message: str = ""
    worker: str = ""


class Ledger:
    """Writes outcomes as small Parquet files that appear whole. One process, one ledger."""

    def __init__(self, store: Store, scratch: Scratch, recipe: str) -> None:
        self._store, self._scratch, self._recipe = store, scratch, recipe
        self._name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:12]}"
        self._files = 0
        self._rows: list[dict[str, Any]] = []
        self._began = self._flushed = time.monotonic()
        self._latest = 0

    def follow(self, latest: int) -> None:
        """Date what comes after this time, in microseconds since 1970: the last row counts, and clocks go back."""
        self._latest = max(self._latest, latest)

    def add(self, outcome: Outcome) -> None:
        """Take an outcome; it is on disk within seconds, later in a long run within minutes."""
        self._latest = max(time.time_ns() // 1000, self._latest + 1)
        row = {**vars(outcome), "recipe": self._recipe, "time": self._latest}
        row["id"] = hide_secrets(outcome.id[:ID_SHOWN])[:200] if outcome.error else outcome.id
        self._rows.append({name: as_utf8(value) if isinstance(value, str) else value for name, value in row.items()})
        now = time.monotonic()
        wait = min(max(_SHORTEST, 0.05 * (now - self._began)), _LONGEST)
        if now - self._flushed > wait or len(self._rows) >= 100_000:
            self.flush()

    def flush(self) -> None:
        """Write what was taken since the last file."""
        self._flushed = time.monotonic()
        if not self._rows:
            return
        made = self._scratch.folder / f"ledger-{self._files}.parquet"
        pq.write_table(pa.Table.from_pylist(self._rows, SCHEMA), made)
        self._store.put(made, f"{FOLDER}/{self._name}-{self._files:06d}.parquet")
        self._files += 1
        self._rows.clear()


@dataclass(frozen=True)
class Standing:
    """What a ledger knows about work, compactly: eight bytes for each key."""

    done: NDArray[np.uint64]
    """Sorted short keys of the work of each scene that was done last: its item is there, if any is."""
    quarantined: NDArray[np.uint64]
    """Sorted short keys of work that is not to be tried again."""
    lost: dict[int, int]
    """Short key to how many processes died at it."""
    latest: int
    """When the last row was written, in microseconds since 1970."""


def short_key(work: str) -> int:
    """Give the first eight bytes of a key: 10 million of them collide once in 400,000 manifests."""
    return int(work[:16], 16)


def contains(keys: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which of the wanted keys are among the sorted ones."""
    if not keys.size:
        return np.zeros(wanted.shape, bool)
    found: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, wanted), keys.size - 1)] == wanted
    return found


def read_tables(store: Store, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Give the files of a ledger in the order of their names, which is that of their runs.

    A file that cannot be read is left out with a warning, a row that says nothing of any work without one: the items
    tell what is done.
    """
    names = sorted(name for name in store.names(FOLDER) if name.endswith(".parquet"))
    wanted = pa.schema([SCHEMA.field(name) for name in columns])

    def read(name: str) -> pa.Table:
        try:
            data = store.read(f"{FOLDER}/{name}")
            table = pq.read_table(pa.BufferReader(data or b""), columns=list(columns)).select(columns).cast(wanted)
            table.validate(full=True)
            return _readable(table)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            warn(f"{store.name}/{FOLDER}/{name} is damaged and left out of the log: {error}")
            return wanted.empty_table()

    with ThreadPoolExecutor(16) as pool:
        for start in range(0, len(names), 64):
            yield from pool.map(read, names[start : start + 64])


def _readable(table: pa.Table) -> pa.Table:
    """Give the rows that tell of a work, their gaps filled."""
    for place, name in enumerate(table.column_names):
        column = table[name]
        if name in ("recipe", "error", "message", "worker"):
            table = table.set_column(place, SCHEMA.field(name), pc.fill_null(column, ""))
        elif name in ("seconds", "megapixels"):
            sane = pc.and_kleene(pc.is_finite(column), pc.greater_equal(column, 0.0))
            table = table.set_column(place, SCHEMA.field(name), pc.if_else(pc.fill_null(sane, False), column, 0.0))
    whole = [pc.match_substring_regex(table["work"], "^[0-9a-f]{64}$"), pc.is_in(table["status"], pa.array(_KNOWN))]
    when = table["time"].cast(pa.int64())
    whole += [pc.greater_equal(when, 0), pc.less(when, _LAST_MICROSECOND)]
    if "id" in table.column_names:
        whole.append(pc.is_valid(table["id"]))
    return table.filter(reduce(pc.and_kleene, whole))


def read_standing(store: Store) -> Standing:
    """Read what is done and what is quarantined; of several rows about a work or a scene the last counts."""
    done: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
    ids: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    times: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    others: list[pa.Table] = []
    latest = 0
    for table in read_tables(store, ["id", "work", "status", "time"]):
        latest = max(latest, pc.max(table["time"].cast(pa.int64())).as_py() or 0)
        finished = pc.is_in(table["status"], pa.array(DONE))
        rows, rest = table.filter(finished), table.filter(pc.invert(finished))
        done.append(_short_keys(rows["work"]))
        ids.append(np.array([hash(name) for name in rows["id"].to_pylist()], np.int64))
        times.append(rows["time"].cast(pa.int64()).to_numpy())
        if rest.num_rows:
            others.append(rest)
    backwards = np.argsort(np.concatenate(times), kind="stable")[::-1]
    _, last = np.unique(np.concatenate(ids)[backwards], return_index=True)
    keys = np.unique(np.concatenate(done)[backwards[last]])
    errors, lost = _fates(others)
    kept = np.sort(np.fromiter(errors, np.uint64))
    return Standing(keys, kept[~contains(keys, kept)], lost, latest)


def _fates(tables: Sequence[pa.Table]) -> tuple[dict[int, str], dict[int, int]]:
    """Give, from rows of work that was not done, the class of the error that a work is quarantined with last.

    The second are how many processes died at a work since anything else became of it.
    """
    errors: dict[int, str] = {}
    lost: dict[int, int] = {}
    for batch in pa.concat_tables(tables).sort_by("time").to_batches(4096) if tables else ():
        for row in batch.to_pylist():
            key = short_key(row["work"])
            if row["status"] == "lost":
                lost[key] = lost.get(key, 0) + 1
                continue
            lost.pop(key, None)
            if row["status"] == "quarantined":
                errors[key] = row.get("error", "")
            else:
                errors.pop(key, None)
    return errors, lost


@dataclass(frozen=True)
class Summary:
    """How far a run is."""

    done: int
    found: int
    """Of the done, those whose item was there already when a worker came."""
    quarantined: dict[str, int]
    """Error class to scenes."""
    lost: int
    """Times that a process died at a scene."""
    megapixels: float
    worker_seconds: float
    """Of the scenes done, added up over workers."""
    scenes_per_second: float
    """Over the last ten minutes in which anything was done."""
    last: float
    """When the last row was written, in seconds since 1970."""


def summarise(store: Store, recipe: str) -> Summary:
    """Add a ledger up, for the work of one recipe."""
    columns = ["work", "recipe", "status", "seconds", "megapixels", "error", "time"]
    keys: dict[str, list[NDArray[np.uint64]]] = {status: [np.empty(0, np.uint64)] for status in DONE}
    times: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    megapixels, seconds, lost = 0.0, 0.0, 0
    others: list[pa.Table] = []
    for table in read_tables(store, columns):
        ours = table.filter(pc.equal(table["recipe"], recipe))
        for status in DONE:
            rows = ours.filter(pc.equal(ours["status"], status))
            keys[status].append(_short_keys(rows["work"]))
            megapixels += pc.sum(rows["megapixels"]).as_py() or 0.0
            seconds += pc.sum(rows["seconds"]).as_py() or 0.0
            times.append(rows["time"].cast(pa.int64()).to_numpy())
        others.append(ours.filter(pc.invert(pc.is_in(ours["status"], pa.array(DONE)))))
        lost += pc.sum(pc.equal(ours["status"], "lost")).as_py() or 0
    errors, _ = _fates(others)
    restored, found = (np.unique(np.concatenate(keys[status])) for status in DONE)
    every = np.union1d(restored, found)
    when = np.sort(np.concatenate(times)) / 1e6
    recent = when[when > when[-1] - 600] if when.size else when
    span = float(recent[-1] - recent[0]) if recent.size > 1 else 0.0
    done_since = contains(every, np.fromiter(errors, np.uint64))
    counts = Counter(error for error, done in zip(errors.values(), done_since, strict=True) if not done)
    return Summary(
        done=int(every.size),
        found=int(np.setdiff1d(found, restored).size),
        quarantined=dict(counts.most_common()),
        lost=lost,
        megapixels=megapixels,
        worker_seconds=seconds,
        scenes_per_second=(recent.size - 1) / span if span else 0.0,
        last=float(when[-1]) if when.size else 0.0,
    )


def quarantined_rows(store: Store) -> list[dict[str, Any]]:
    """Give the last row of each work that is quarantined."""
    standing = read_standing(store)
    found: dict[str, dict[str, Any]] = {}
    for table in read_tables(store, SCHEMA.names):
        rows = table.filter(pc.equal(table["status"], "quarantined"))
        still = contains(standing.quarantined, _short_keys(rows["work"]))
        for row in rows.filter(pa.array(still)).to_pylist():
            found[row["work"]] = row
    return list(found.values())


def worker_name() -> str:
    """Name this process in a ledger."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _short_keys(works: pa.ChunkedArray) -> NDArray[np.uint64]:
    return np.array([short_key(work) for work in works.to_pylist()], np.uint64)
