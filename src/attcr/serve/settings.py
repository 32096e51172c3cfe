"""Settings of a server: where its store is, what it accepts, and how much."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from attcr.addresses import is_local, redact
from attcr.errors import ConfigError
from attcr.fleet.options import FleetOptions
from attcr.restore.options import Option, options_of, restore_options

ANONYMOUS = "anonymous"
"""The one user of a server without keys."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses that a server without keys may bind to."""
SHORTEST_KEY = 16
"""Characters of a key: shorter ones are guessed."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Limits:
    """How much one user, one request and one scene may ask for."""

    jobs: int = 100
    """Unfinished jobs of a key."""
    upload_bytes: int = 4 << 30
    """Bytes of one file, sent or fetched."""
    stored_bytes: int = 100 << 30
    """Bytes of all that the server keeps for a key: uploads, fetched files, requests and results."""
    body_bytes: int = 4 << 20
    """Bytes of a request's JSON."""
    pixels: int = 250_000_000
    """Pixels of a scene: two Sentinel-2 tiles at 10 m."""
    bands: int = 64
    files: int = 32
    """Files of one job: bands, references, masks."""
    seconds: float = 6 * 3600
    """Of a job, its fetching included."""
    fetch_seconds: float = 900
    """Of one file that is fetched."""
    memory: int = 0
    """Bytes of the process that computes a job; 0: its share of 9 tenths of this machine's."""
    uploads: int = 8
    """Files that a key sends at once."""
    requests: int = 64
    """Requests of a key that are answered at once."""
    connections: int = 512
    """Of all clients; beyond them the slowest are ended."""
    keep_days: float = 7
    """Days after which finished jobs and uploads are removed."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0 and (name, value) != ("memory", 0):
                raise ConfigError(f"The limit {name} is {value} and must be more than 0.")


@dataclass(frozen=True)
class ServeSettings:
    """How a server is set up."""

    # fmt: off
    store: str
    """Folder of the jobs and their results."""
    host: Annotated[str, Option(
        "Address to listen at; any but this machine's own needs API keys.",
        "", "ADDRESS")] = "127.0.0.1"
    port: Annotated[int, Option(
        "Port to listen at; 0: a free one.",
        "", "NUMBER", least=0)] = 8000
    weights: Annotated[tuple[str, ...], Option(
        "Weights that users may choose, the first by default.",
        "", "WEIGHTS", "the published ones, chosen by what fits a scene")] = ()
    allow_hosts: Annotated[tuple[str, ...], Option(
        "A host that scenes may be fetched from, as example.org or *.example.org; private:HOST where it is in a "
        "private network.",
        "", "HOST", spelt=("allow-host",))] = ()
    engine: Annotated[Literal["local", "ray"], Option(
        "local: processes here. ray: actors, here or on a cluster.",
        "", "ENGINE")] = "local"
    workers: Annotated[int, Option(
        "Processes with a network each.",
        "", "NUMBER", least=1)] = 1
    threads: Annotated[int | None, options_of(FleetOptions)["threads"]] = None
    device: Annotated[str, replace(restore_options()["device"], group="")] = "cpu"
    address: Annotated[str | None, options_of(FleetOptions)["address"]] = None
    # fmt: on
    keys: Mapping[str, str] | None = field(default=None, repr=False)
    """sha256 of each API key to its user's name; None: one anonymous user, on this machine alone."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name, option in options_of(ServeSettings).items():
            option.check(getattr(self, name))
        if self.port >= 1 << 16:
            raise ConfigError(f"`port` is {self.port} and must be less than {1 << 16}.")
        if not is_local(self.store):
            raise ConfigError(f"{redact(self.store)} is no folder on this machine: `store` takes one.")
        if self.engine == "local" and self.address:
            raise ConfigError("address is for `engine=ray`.")
        if self.keys is None and self.host not in LOOPBACK:
            raise ConfigError(
                f"host is {self.host} and there are no API keys, so anyone who reaches it could use it: give `keys`, "
                "or bind to 127.0.0.1."
            )

    @property
    def root(self) -> Path:
        """The store's folder."""
        return Path(self.store).absolute()


def read_keys(path: Path) -> dict[str, str]:
    """Read a file of API keys, a line each: the user's name, a space, and the key or `sha256:` and its digest.

    Gives the digest of each key to its user's name; a user may have several keys.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a file of keys: {error}.") from error
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, key = line.strip().partition(" ")
        key = key.strip()
        if not _NAME.fullmatch(name) or name == ANONYMOUS:
            raise ConfigError(f"{path}, line {number}: expected a user's name (letters, digits, . _ -) and a key.")
        if key.startswith("sha256:"):
            digest = key.removeprefix("sha256:").lower()
            if not re.fullmatch("[0-9a-f]{64}", digest):
                raise ConfigError(f"{path}, line {number}: expected 64 hexadecimal digits after sha256:.")
        elif len(key) < SHORTEST_KEY or " " in key:
            raise ConfigError(f"{path}, line {number}: a key has at least {SHORTEST_KEY} characters and no spaces.")
        else:
            digest = digest_of(key)
        if keys.setdefault(digest, name) != name:
            raise ConfigError(f"{path}, line {number}: {name} has the key of {keys[digest]}: give each one of its own.")
    if not keys:
        raise ConfigError(f"{path} holds no keys: expected lines of a user's name and a key.")
    return keys


def digest_of(key: str) -> str:
    """Give what a key is known by; the key itself is not kept."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def read_limits(given: Sequence[str]) -> Limits:
    """Read NAME=NUMBER limits."""
    kinds = {one.name: one.type for one in fields(Limits)}
    chosen: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in kinds:
            raise ConfigError(f"There is no limit {name!r}; expected one of {', '.join(kinds)}.")
        try:
            chosen[name] = int(float(number)) if kinds[name] is int else float(number)
        except (ValueError, OverflowError):
            raise ConfigError(f"The limit {name} is {number!r}; expected a number.") from None
    return Limits(**chosen)  # type: ignore[arg-type]  # as their names say
