"""Weights from elsewhere: the Hugging Face Hub, or any URL that fsspec reads. Checked by sha256, kept, fetched once."""

import re
import tempfile
from pathlib import Path

from attcr.addresses import redact
from attcr.errors import MissingExtraError, WeightsError
from attcr.files import cache_folder, sha256

try:
    import fsspec
    import huggingface_hub
    from fsspec.callbacks import TqdmCallback
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
except ImportError as error:
    raise MissingExtraError("huggingface_hub, fsspec", "hub") from error

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
        path = Path(huggingface_hub.hf_hub_download(address["repo"], file, revision=address["revision"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise WeightsError(f"{address[0]}: {file} cannot be had from the Hub: {_first_line(error)}") from error
    due = digest or path.resolve().name  # the Hub's cache names large files by the sha256 that the Hub keeps
    if not _SHA256.fullmatch(due):
        raise WeightsError(f"{address[0]}: the Hub keeps no sha256 of {file}. Add #sha256=HEX to the address")
    _check(path, due, address[0])
    return path


def _from_url(url: str, digest: str) -> Path:
    if not digest:
        raise WeightsError(f"{redact(url)}: add #sha256=HEX to the address, so that what comes can be checked")
    folder = cache_folder()
    kept = folder / f"{digest}.safetensors"
    if not kept.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as part:
            new = Path(part, kept.name)
            try:
                filesystem, path = fsspec.core.url_to_fs(url)
                show = TqdmCallback(tqdm_kwargs={"desc": kept.name[:12], "unit": "B", "unit_scale": True})
                filesystem.get_file(path, str(new), callback=show)
            except Exception as error:  # every kind of store has errors of its own
                raise WeightsError(f"{redact(url)} cannot be fetched: {_first_line(error)}") from error
            _check(new, digest, redact(url))
            new.replace(kept)
    _check(kept, digest, redact(url))
    return kept


def _check(path: Path, due: str, source: str) -> None:
    found = sha256(path)
    if found != due:
        path.resolve().unlink()  # in the Hub's cache the path is a link
        path.unlink(missing_ok=True)
        raise WeightsError(f"{source}: came with sha256 {found}, expected {due}. It was not kept; fetch it again")


def _first_line(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"\w+://\S+", lambda url: redact(url[0]), line)
