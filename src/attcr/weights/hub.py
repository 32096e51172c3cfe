"""Weights from elsewhere: the Hugging Face Hub, or any URL that fsspec reads. Checked by sha256, kept, fetched once."""

import re
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as NotInTimeError
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from attcr.addresses import hide_secrets, redact
from attcr.downloads import LIMIT_VARIABLE, PIECE, background, copy, download_limit, open_http, seconds_for
from attcr.errors import WeightsError
from attcr.extras import needed
from attcr.files import cache_folder, sha256

with needed():
    import fsspec
    import huggingface_hub
    from fsspec.callbacks import TqdmCallback
    from huggingface_hub.errors import LocalEntryNotFoundError

_HUB = re.compile(r"hf://(?P<repo>[^/@#]+/[^/@#]+)(?:/(?P<file>[^@#]+))?(?:@(?P<revision>[^#]+))?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch(source: str) -> Path:
    """Give the local file of hf://OWNER/NAME[/FILE][@REVISION] or a URL; #sha256=HEX at the end says what is due.

    A file of the Hub is checked against the sha256 that the Hub keeps of it where none is given. A URL needs one.
    """
    address, _, digest = source.partition("#sha256=")
    digest = digest.lower()
    if digest and not _SHA256.fullmatch(digest):
        raise WeightsError(f"{redact(address)}: what follows #sha256= must be 64 hexadecimal digits")
    hub = _HUB.fullmatch(address)
    if address.startswith("hf://") and not hub:
        raise WeightsError(f"{redact(address)}: expected hf://OWNER/NAME[/FILE][@REVISION]")
    return _from_hub(hub, digest) if hub else _from_url(address, digest)


def _from_hub(address: re.Match[str], digest: str) -> Path:
    file = address["file"] or "model.safetensors"
    try:
        size = _size_on_hub(address, file)
        _refuse_large(size)

        def download() -> str:
            return huggingface_hub.hf_hub_download(address["repo"], file, revision=address["revision"])

        path = Path(background(download).result(timeout=seconds_for(size)))
    except NotInTimeError as error:
        raise WeightsError(f"{address[0]}: {file} arrived too slowly from the Hub: try again later") from error
    except LocalEntryNotFoundError as error:
        raise WeightsError(
            f"{address[0]}: the Hub cannot be reached, and {file} is not in this machine's cache: check the connection"
        ) from error
    except Exception as error:  # the client's transport has errors of its own, which are of no common kind
        raise WeightsError(f"{address[0]}: {file} cannot be fetched from the Hub: {_first_line(error)}") from error
    kept = path.resolve().name  # the Hub's cache names large files by the sha256 that the Hub keeps
    found = sha256(path)
    if _SHA256.fullmatch(kept) and found != kept:
        _drop(path)
        raise _mismatch(address[0], found, kept, "It was not kept; fetch it again")
    if not digest and not _SHA256.fullmatch(kept):
        raise WeightsError(f"{address[0]}: the Hub keeps no sha256 of {file}. Add #sha256=HEX to the address")
    if digest and found != digest:
        raise _mismatch(address[0], found, digest, "Check the address and what follows #sha256=")
    return path


def _size_on_hub(address: re.Match[str], file: str) -> int:
    """Give the size of a file on the Hub; the largest size allowed if the Hub cannot be reached."""
    url = huggingface_hub.hf_hub_url(address["repo"], file, revision=address["revision"])
    with suppress(Exception):  # the download says it, or finds it in the cache
        size = huggingface_hub.get_hf_file_metadata(url).size
        if size is not None:
            return size
    return download_limit()


def _drop(path: Path) -> None:
    """Remove a damaged file of the Hub's cache: the link, and what it leads to where that is the cache's own."""
    content = path.resolve()
    repository = next((folder.parent for folder in path.parents if folder.name == "snapshots"), None)
    path.unlink()
    if repository is not None and content.parent == (repository / "blobs").resolve():
        content.unlink(missing_ok=True)


def _from_url(url: str, digest: str) -> Path:
    if not digest:
        raise WeightsError(f"{redact(url)}: add #sha256=HEX to the address, so that what comes can be checked")
    folder = cache_folder()
    kept = folder / f"{digest}{'.onnx' if urlsplit(url).path.lower().endswith('.onnx') else '.safetensors'}"
    if kept.is_file() and sha256(kept) == digest:
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as part:
        new = Path(part, kept.name)
        try:
            _download(url, new)
        except Exception as error:  # every kind of store has errors of its own
            raise WeightsError(f"{redact(url)} cannot be fetched: {_first_line(error)}") from error
        found = sha256(new)
        if found != digest:
            raise _mismatch(redact(url), found, digest, "It was not kept; fetch it again")
        new.replace(kept)  # of a link there, the link is replaced and not what it leads to
    return kept


def _download(url: str, path: Path) -> None:
    """Stream a file here, within the limits of size and time."""
    with _opened(url) as (size, pieces), path.open("wb") as file:
        _refuse_large(size or 0)
        most = download_limit() if size is None else size
        copy(_shown(pieces, size, path.name[:12]), file, most=most, seconds=seconds_for(most))


@contextmanager
def _opened(url: str) -> Iterator[tuple[int | None, Iterable[bytes]]]:
    """Give the size of a file, if it is known, and its pieces as they come."""
    if url.startswith(("http://", "https://")):
        with open_http(url) as answer:
            yield answer
        return
    if "::" in url:
        raise ValueError("addresses inside addresses (::) are not taken: give the file's own")
    filesystem, path = fsspec.core.url_to_fs(url)
    with filesystem.open(path, "rb") as file:
        yield filesystem.size(path), iter(lambda: file.read(PIECE), b"")


def _shown(pieces: Iterable[bytes], size: int | None, name: str) -> Iterator[bytes]:
    """Give the pieces, and show how many came."""
    show = TqdmCallback(tqdm_kwargs={"desc": name, "unit": "B", "unit_scale": True})
    show.set_size(size)
    for piece in pieces:
        show.relative_update(len(piece))
        yield piece
    show.close()


def _refuse_large(size: int) -> None:
    if size > download_limit():
        gib = -(-size >> 30)
        raise ValueError(f"it has {size:,} bytes. If that is right, set {LIMIT_VARIABLE}={gib} and try again")


def _mismatch(source: str, found: str, due: str, advice: str) -> WeightsError:
    return WeightsError(f"{source}: has sha256 {found}, expected {due}. {advice}")


def _first_line(error: BaseException) -> str:
    return hide_secrets((str(error).strip().splitlines() or [type(error).__name__])[0])
