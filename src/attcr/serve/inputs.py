"""What a request asks for: read, checked, and its files brought into the job's own folder."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from pydantic import ValidationError

from attcr.addresses import is_item, redact
from attcr.errors import AttcrError, ConfigError, SceneError
from attcr.files import replacing, write_whole
from attcr.fleet.manifest import Work, prune_item, work_of_item
from attcr.fleet.settings import with_settings
from attcr.restore.options import MASKS, NO_WEIGHTS, RestoreOptions
from attcr.serve.limits import Hosts, NotAllowedError, check_file, fetch_file, file_name
from attcr.serve.models import MASK_KINDS, Asked, Execute, Ref, options_taken, refusal_of
from attcr.serve.settings import Limits

UPLOAD_ID = re.compile("[0-9a-f]{32}")
READY = "ready.json"
ATTEMPTS = 3
"""Tries to fetch a file."""
_RASTERS = ("image/tiff", "image/jp2", "image/vnd.stac.geotiff")
_COMPANIONS = ("scl", "qa_pixel", "qa")


def read_json(text: bytes) -> Any:
    """Read JSON that came from outside; ValueError where it is none, or holds text that is not UTF-8."""

    def no_number(word: str) -> None:
        raise ValueError(f"{word} is no number of JSON")

    try:
        found = json.loads(text, parse_constant=no_number)
        json.dumps(found, ensure_ascii=False).encode()  # \ud800 alone is half a character
    except UnicodeError:
        raise ValueError("its text is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def read_request(body: object, hosts: Hosts, limits: Limits, weights: tuple[str, ...]) -> Asked:
    """Read the body of an execute request; ConfigError or NotAllowedError where it cannot be taken."""
    try:
        return _asked(Execute.model_validate(body), hosts, limits, weights)
    except ValidationError as error:
        raise ConfigError(refusal_of(error.errors(include_url=False))) from error


def _asked(request: Execute, hosts: Hosts, limits: Limits, weights: tuple[str, ...]) -> Asked:
    given = dict(request.inputs)
    if "scene" not in given:
        raise ConfigError("The input scene is missing: give an upload, an address, a STAC item or band files.")
    taken = options_taken()
    known = ("scene", "weights", *taken)
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(f"There is no input {unknown[0][:60]!r}; expected some of {', '.join(known)}.")
    refs = [*_refs("scene", given.pop("scene"))]
    listed = given.pop("references", None) or []
    for reference in listed if isinstance(listed, list) else [listed]:
        if isinstance(reference, list):
            raise ConfigError("A reference is one file or STAC item, not a list of bands.")
        refs += _refs("references", reference)
    chosen = given.pop("weights", None)
    if chosen is not None and chosen not in weights:
        raise ConfigError(f"There are no weights {str(chosen)[:60]!r} here; expected one of {', '.join(weights)}.")
    options: dict[str, Any] = {}
    for name, value in given.items():
        if taken[name].names and isinstance(value, dict):
            refs += _refs(name, value)
        elif value is not None:
            options[name] = value
    _check_options(options, has_references=any(ref.slot == "references" for ref in refs), weights=chosen)
    if len(refs) > limits.files:
        raise ConfigError(f"The request names {len(refs)} files, and at most {limits.files} are allowed.")
    for ref in refs:
        if not ref.upload and ref.item is None:
            hosts.check(ref.href)
    outputs, raw = tuple(request.outputs), request.response == "raw"
    return Asked(refs=tuple(refs), options=options, weights=chosen, outputs=outputs, raw=raw)


def _refs(slot: str, value: object) -> Iterator[Ref]:
    """Read one input that names a file, an item or, for a scene, several band files."""
    if isinstance(value, list):
        if slot != "scene" or not value:
            raise ConfigError(f"The input {slot} is a list; expected one upload, address or STAC item.")
        for one in value:
            if not (isinstance(one, dict) and ("upload" in one or "href" in one)):
                raise ConfigError('A band file is {"upload": ...} or {"href": ...}.')
            yield from _refs(slot, one)
        return
    if isinstance(value, dict) and isinstance(value.get("value"), dict):
        value = value["value"]
    if not isinstance(value, dict):
        raise ConfigError(f'The input {slot} is {str(value)[:60]!r}; expected {{"upload": ...}} or {{"href": ...}}.')
    kind = value.get("kind") or ""
    if kind and slot not in ("mask", "reference_mask"):
        raise ConfigError(f"The kind of {slot} is {str(kind)[:60]!r}; a mask has one of {', '.join(MASK_KINDS)}.")
    named = next((name for name in ("upload", "href") if name in value), "item")
    if named == "item" and not (isinstance(value.get("assets"), dict) and slot in ("scene", "references")):
        raise ConfigError(f"The input {slot} holds neither upload nor href, and is no STAC item with assets.")
    if named == "upload" and not (isinstance(value["upload"], str) and UPLOAD_ID.fullmatch(value["upload"])):
        raise ConfigError(f"The upload {str(value['upload'])[:60]!r} is no id that /uploads gave.")
    yield Ref.model_validate({"slot": slot, "kind": kind, named: value if named == "item" else value[named]})


def _check_options(options: Mapping[str, Any], *, has_references: bool, weights: str | None) -> None:
    """Refuse options as the command does, and what would take more than a server's share."""
    taken = options_taken()
    for name, value in options.items():
        if taken[name].names and (name == "radar" or value not in MASKS):
            expected = "an upload or an address" if name == "radar" else f"{', '.join(MASKS)}, an upload or an address"
            raise ConfigError(f"The option {name} is {str(value)[:60]!r}; expected {expected}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"The option {name} is {value}; expected a finite number.")
        if isinstance(value, str | list) and len(str(value)) > 2000:
            raise ConfigError(f"The option {name} is too long.")
    with_settings(RestoreOptions(), {name: value for name, value in options.items() if not taken[name].names})
    for name, value in options.items():
        least, most = taken[name].share or (value, value)
        if not least <= value <= most:
            raise ConfigError(f"The option {name} is {value}; this server takes {least} to {most}.")
    if weights == NO_WEIGHTS and not has_references:
        raise ConfigError(
            "`weights=none` fills clouds from other dates, and none was given: give them with `references`."
        )


def prepare(asked: Asked, folder: Path, hosts: Hosts, limits: Limits) -> None:
    """Fetch what a job's request names into its folder, and then write down what is where.

    Uploads are there already, each in the folder of its number. What an earlier try brought is kept.
    """
    if (folder / READY).exists():
        return
    files: dict[str, Any] = {"scene": [], "references": []}
    room = limits.stored_bytes
    for number, ref in enumerate(asked.refs):
        path = _bring(ref, folder / str(number), asked, hosts, limits)
        room -= sum(file.stat().st_size for file in (folder / str(number)).rglob("*") if file.is_file())
        if room < 0:
            raise NotAllowedError(f"The job's files have more than {limits.stored_bytes:,} bytes: give smaller ones.")
        place = str(path.relative_to(folder))
        if ref.slot in ("scene", "references"):
            files[ref.slot].append(place)
        else:
            files[ref.slot] = [ref.kind, place]
    ready = {"scene": files.pop("scene"), "files": files, "options": asked.options}
    write_whole(folder / READY, json.dumps(ready))


def _bring(ref: Ref, folder: Path, asked: Asked, hosts: Hosts, limits: Limits) -> Path:
    """Give the path of a file, or of an item whose files are beside it."""
    if ref.upload:
        (found,) = folder.iterdir()
        return found
    folder.mkdir(parents=True, exist_ok=True)
    item: object = ref.item
    if item is None:
        if not is_item(ref.href):
            return _bring_file(ref.href, folder, hosts, limits)
        text = folder / "fetched.txt"
        _fetch(ref.href, text, hosts, limits.body_bytes)
        try:
            item = read_json(text.read_bytes())
        except ValueError as error:
            raise SceneError(f"{redact(ref.href)} is not a STAC item: {error}. Expected one with assets.") from error
    return _bring_item(item, ref.href, folder, asked, hosts, limits)


def _bring_file(href: str, folder: Path, hosts: Hosts, limits: Limits) -> Path:
    parts = urlsplit(redact(href))
    above = [
        re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") for name in (parts.hostname or "", *parts.path.split("/"))
    ]
    place = folder.joinpath(*[name[-80:] for name in above[:-1] if name][-8:])  # their names may tell the product
    place.mkdir(parents=True, exist_ok=True)
    path = place / file_name(above[-1])
    if not path.exists():
        _fetch(href, path, hosts, limits.upload_bytes)
    check_file(path)
    return path


def _bring_item(item: object, base: str, folder: Path, asked: Asked, hosts: Hosts, limits: Limits) -> Path:
    """Fetch the rasters of a STAC item; write the item with their places."""
    if not isinstance(item, dict) or not isinstance(item.get("assets"), dict):
        raise SceneError("The STAC item has no assets: expected one with a raster for each band.")
    wanted = {name: asset for name, asset in item["assets"].items() if _is_band(name, asset)}
    pruned = _pruned({**item, "assets": wanted}, asked)
    if len(pruned) > limits.files:
        raise NotAllowedError(
            f"The STAC item has {len(pruned)} rasters, and at most {limits.files} are allowed: name some with `bands`."
        )
    kept: dict[str, Any] = {}
    for number, (name, asset) in enumerate(pruned.items()):
        path = _bring_file(urljoin(base, str(asset.get("href", ""))), folder / f"a{number}", hosts, limits)
        kept[name] = {**asset, "href": f"./{path.relative_to(folder)}"}
    write_whole(folder / "item.json", json.dumps({**item, "assets": kept, "links": []}))
    return folder / "item.json"


def _is_band(name: str, asset: object) -> bool:
    """Say whether an asset is a raster of one band, or of classes, as scenes are opened from."""
    if not isinstance(asset, dict) or not str(asset.get("type") or "image/tiff").lower().startswith(_RASTERS):
        return False
    described = asset.get("bands") or asset.get("eo:bands") or []
    return name.lower() in _COMPANIONS or (isinstance(described, list) and len(described) == 1)


def _pruned(item: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Give the assets that hold the bands asked for and the mask."""
    options = with_settings(RestoreOptions(), {k: v for k, v in asked.options.items() if k in ("bands", "mask")})
    try:
        work = prune_item(work_of_item(item), bands=options.bands, mask=options.mask)
        if work.problem or not work.item:
            return dict(item["assets"])
        return {name: item["assets"][name] for name in json.loads(work.item)["assets"]}
    except (AttcrError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise SceneError(f"The STAC item cannot be read: {type(error).__name__}: {error}") from error


def _fetch(href: str, path: Path, hosts: Hosts, most: int, attempts: int = ATTEMPTS) -> None:
    """Fetch a file, whole or not at all; what is not allowed is tried once."""
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            fetch_file(href, file, hosts, most)
    except OSError as error:
        if attempts == 1:
            raise SceneError(f"{redact(href)} cannot be fetched: {error}. Check the address.") from error
        _fetch(href, path, hosts, most, attempts - 1)


def work_of(name: str, folder: Path) -> Work:
    """Give a job that is ready as the fleet's unit of work, with the places of its files."""
    ready = json.loads((folder / READY).read_bytes())
    options, files = dict(ready["options"]), ready["files"]
    options["references"] = [str(folder / place) for place in files.pop("references")]
    for slot, (kind, place) in files.items():
        options[slot] = f"{kind}={folder / place}" if kind else str(folder / place)
    hrefs = tuple(str(folder / place) for place in ready["scene"])
    return Work(name, hrefs, version=name, options=json.dumps(options, sort_keys=True))
