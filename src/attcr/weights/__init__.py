"""Weights: the table of published ones, load and save with the spec that says what they take. safetensors only.

Tables and headers are read without torch; it is imported to build a network.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attcr.bands.spec import SEN12MSCR, SEN12MSCR_OPTICAL, TRUE_COLOUR, InputSpec, band_slots
from attcr.errors import ConfigError, WeightsError, warn
from attcr.files import sha256, write_whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

FORMAT = "attcr-2"
FORMAT_WITHOUT_SPEC = "attcr-1"
WRONG = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a config or a spec of the wrong kind, size or depth makes Python and torch raise."""


@dataclass(frozen=True)
class Score:
    """What a published network reached on a list of images, and where it began."""

    benchmark: str
    """Data set, part and number of images."""
    protocol: str
    metric: str
    value: float
    low: float | None
    """Lower end of the 95 % interval over the images; None where there are too few."""
    high: float | None
    input_copied: float
    """The same metric of the network's input as it is."""
    copied: str = "input"
    """What that is: the cloudy input, or the other date that a network corrects."""

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:#.4g}, {self.high:#.4g}]"
        return f"{self.metric} {self.value:#.4g}{interval}, {self.copied} copied {self.input_copied:#.4g}"


@dataclass(frozen=True)
class Published:
    """A network whose weights are in the package."""

    name: str
    sha256: str
    bytes: int
    network: str
    """Its name in `NETWORKS`."""
    config: Mapping[str, Any]
    purpose: str
    sensor: str
    data: str
    """What it was trained on, and by which list."""
    scores: tuple[Score, ...]
    training: str
    """Steps, time, machine."""
    limits: tuple[str, ...]
    """What it must not be used for."""
    licence: str
    commit: str
    """With the code and the recipe that train it."""

    @property
    def path(self) -> Path:
        """Where its weights are."""
        return Path(str(files("attcr") / "published" / f"{self.name}.safetensors"))

    @property
    def spec(self) -> InputSpec:
        """What it takes and gives, as its file says."""
        return read_header(self.path).spec


@cache
def published() -> Mapping[str, Published]:
    """The networks in the package, by name."""
    table = json.loads((files("attcr") / "published" / "table.json").read_text())
    return {
        name: Published(
            **{
                **entry,
                "name": name,
                "scores": tuple(Score(**score) for score in entry["scores"]),
                "limits": tuple(entry["limits"]),
            }
        )
        for name, entry in table.items()
    }


def restoring() -> Mapping[str, Published]:
    """The networks in the package that restore a scene, by name; others correct references."""
    return {name: entry for name, entry in published().items() if not entry.spec.corrects_references}


def find_weights(source: str | os.PathLike[str]) -> Path:
    """The file of a published name, of hf://OWNER/NAME, of a URL, or of a path; what has a sha256 is checked.

    Files from elsewhere are kept, so that they are fetched once. A URL ends in #sha256=...
    """
    text = os.fspath(source)
    if text in published():
        entry = published()[text]
        if not entry.path.is_file() or sha256(entry.path) != entry.sha256:
            raise WeightsError(f"{entry.path}: not the published {text}. Install attcr again")
        return entry.path
    if "://" in text:
        from attcr.weights.hub import fetch

        return fetch(text)
    try:
        there = Path(text).is_file()
    except (OSError, ValueError):  # no name of a file
        there = False
    if not there:
        raise WeightsError(
            f"{text}: no such file, and no published name. Published are {', '.join(published())}; or give the path "
            "of a .safetensors file, hf://OWNER/NAME, or a URL"
        )
    return Path(text)


@dataclass(frozen=True)
class WeightsHeader:
    """What a weights file says of itself."""

    network: str
    """The name in `NETWORKS`."""
    config: Mapping[str, Any]
    """The network's settings, as plain values."""
    spec: InputSpec
    provenance: Mapping[str, Any]


def save_model(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    spec: InputSpec | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """Write a network's weights with its config, spec, provenance and a digest of everything; returns the sha256.

    The spec is the network's own (`model.spec`, as `load_model` gives it) unless one is given. `provenance` is
    anything JSON can hold: training recipe, split, scores. The file appears under its name only when it is complete.
    """
    import safetensors.torch

    from attcr.networks import name_of

    spec = spec or getattr(model, "spec", None)
    if not isinstance(spec, InputSpec):
        raise ConfigError("this network does not say what it takes: give save_model(..., spec=attcr.InputSpec(...))")
    _check_planes(model, spec)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    metadata = {
        "format": FORMAT,
        "network": name_of(model.config),
        "config": json.dumps(asdict(model.config)),  # type: ignore[call-overload]
        "spec": json.dumps(spec.to_json()),
        "provenance": json.dumps(dict(provenance or {})),
    }
    digest = _digest_of(*_parts(safetensors.torch.save(tensors, metadata)))
    content = safetensors.torch.save(tensors, {**metadata, "sha256": digest})
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def _check_planes(model: nn.Module, spec: InputSpec) -> None:
    """Refuse a spec of more or fewer planes than the network has."""
    planes = len(spec.slots), len(spec.outputs) * (2 if spec.spread else 1)
    own = model.config.in_channels, model.config.out_channels  # type: ignore[union-attr]
    if planes != own:
        raise ConfigError(
            f"the network takes {own[0]} planes and gives {own[1]}; the spec names {planes[0]} "
            f"({' '.join(slot.name for slot in spec.slots)}) and {planes[1]}: it is the spec of another network"
        )


def list_models() -> list[str]:
    """Give the names of the weights in the package that `restore_scene` takes, and `load_model`."""
    return list(restoring())


def load_model(source: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> nn.Module:
    """Load a network for inference, in float32, from a published name, a path, hf:// or a URL.

    Its `config` holds its settings, and its `spec` says what it takes and gives.
    """
    import safetensors.torch
    import torch

    from attcr.networks import NETWORKS

    path = find_weights(source)
    content, header = _read(path)
    shapes = {name: tuple(at["shape"]) for name, at in header.items() if name != "__metadata__"}
    told = _header_of(header["__metadata__"], path)
    if told.network not in NETWORKS:
        raise WeightsError(f"{path}: of the network {told.network!r}; this version knows {', '.join(NETWORKS)}")
    entry = NETWORKS[told.network]
    try:
        _refuse_absurd(told.config, shapes)
        config = entry.config(**told.config)
        with torch.device("meta"):  # shapes alone: a header cannot ask for more memory than the file fills
            drawn = entry.module(config)
    except WRONG as error:
        raise WeightsError(f"{path}: the config in its metadata is of another version or damaged ({error})") from error
    check_fit(drawn, shapes, str(path))
    tensors = safetensors.torch.load(content)
    del content  # from here on no number is held twice
    model = _filled(drawn, tensors) or entry.module(config)
    if model is not drawn:
        fill(model, tensors)
    model.spec = told.spec  # type: ignore[assignment]
    try:
        return model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"the network cannot go to device {str(device)!r}: {first}") from error


def _refuse_absurd(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a config of a network that a file of these tensors cannot hold, before any of it is built."""
    numbers = sum(math.prod(shape) for shape in shapes.values())
    most = len(shapes) + 100
    leaves = list(islice((value for setting in config.values() for value in _leaves(setting)), most + 1))
    if len(leaves) > most:
        raise ConfigError(f"it has more than {most} values, and the file has {len(shapes)} tensors")
    largest = max((value for value in leaves if isinstance(value, int | float)), default=0)
    if largest > max(numbers, 1):
        raise ConfigError(f"it asks for {largest:g} of something, and the file has {numbers} numbers")
    blocks = sum(value for value in _leaves(config.get("blocks", ())) if isinstance(value, int))
    if blocks > len(shapes):
        raise ConfigError(f"it asks for {blocks} blocks, and the file has {len(shapes)} tensors")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _filled(drawn: nn.Module, tensors: dict[str, Tensor]) -> nn.Module | None:
    """Give a network of shapes alone these numbers, without room for others first; None where it holds more."""
    for name, due in drawn.state_dict().items():
        tensors[name] = tensors[name].to(due.dtype)
    drawn.load_state_dict(tensors, assign=True)
    return None if any(one.is_meta for one in (*drawn.parameters(), *drawn.buffers())) else drawn


def read_header(source: str | os.PathLike[str]) -> WeightsHeader:
    """Read what a weights file says about itself, after checking that it is complete; no tensor is built."""
    path = find_weights(source) if not isinstance(source, Path) else source
    return _header_of(_read(path)[1]["__metadata__"], path)


def read_tensors(path: Path) -> tuple[WeightsHeader, dict[str, NDArray[Any]], str]:
    """Check that a file is whole and ours; give what it says of itself, its tensors without torch, and its sha256."""
    content, header = _read(path)
    try:
        tensors = safetensors.numpy.load(content)
    except (SafetensorError, KeyError, TypeError) as error:
        raise WeightsError(f"{path}: its tensors are of a type that only torch reads ({error})") from error
    return _header_of(header["__metadata__"], path), tensors, hashlib.sha256(content).hexdigest()


def _header_of(metadata: Mapping[str, str], path: Path) -> WeightsHeader:
    try:
        config, provenance = json.loads(metadata["config"]), json.loads(metadata.get("provenance", "{}"))
        if not isinstance(config, dict) or not isinstance(provenance, dict):
            raise ConfigError("config and provenance must be JSON objects")
        if metadata["format"] == FORMAT_WITHOUT_SPEC:
            warn(
                f"{path}: saved by an old version that did not store what weights take ({FORMAT_WITHOUT_SPEC}). "
                "Its bands are assumed from its number of channels; save it again with "
                "attcr.save_model(model, path, spec=...)."
            )
            return WeightsHeader("attcr", config, _implied_spec(config), provenance)
        return WeightsHeader(metadata["network"], config, InputSpec.from_json(json.loads(metadata["spec"])), provenance)
    except WRONG as error:
        raise WeightsError(f"{path}: its metadata is of another version or damaged ({error})") from error


def _implied_spec(config: Mapping[str, Any]) -> InputSpec:
    """What a file without a spec used to be taken for by its channels: true colour, or the bands of SEN12MS-CR."""
    inputs, outputs = int(config.get("in_channels", 3)), int(config.get("out_channels", 3))
    if outputs == len(SEN12MSCR.outputs) and inputs in (outputs, outputs + 2):
        return SEN12MSCR_OPTICAL if inputs == outputs else SEN12MSCR
    if (inputs, outputs) == (3, 3):
        return TRUE_COLOUR
    if inputs != outputs:
        raise ConfigError(f"the meaning of its {inputs} inputs is unknown")
    names = tuple(f"band {number}" for number in range(1, inputs + 1))
    return replace(TRUE_COLOUR, slots=band_slots(names, high=TRUE_COLOUR.slots[0].high), outputs=names)


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a file once, check that it is whole and ours, and give its bytes and its header."""
    metadata = read_metadata(path)
    known = (FORMAT, FORMAT_WITHOUT_SPEC)
    if metadata.get("format") not in known or "config" not in metadata or "sha256" not in metadata:
        raise WeightsError(
            f"{path}: a safetensors file, but not saved by attcr (metadata has {sorted(metadata) or 'nothing'}). "
            "If it is the authors' checkpoint, run: attcr convert IN OUT"
        )
    content = path.read_bytes()
    header, data = _parts(content)
    if _digest_of(header, data) != header["__metadata__"]["sha256"]:
        raise WeightsError(f"{path}: it was changed or damaged after it was saved. Download it again")
    return content, header


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, however it was made."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror or error})") from error
    except SafetensorError as error:
        kind = "a pickled file, which attcr does not load" if _is_pickled(path) else "damaged, or no safetensors file"
        raise WeightsError(f"{path}: {kind} ({error}). To import a checkpoint run: attcr convert IN OUT") from error


def _is_pickled(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(2)
    return start in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _parts(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header of a safetensors file, and its tensors' bytes."""
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:start])
    return header, memoryview(content)[start:]


def _digest_of(header: Mapping[str, Any], data: memoryview) -> str:
    """A sha256 of all that a file says: names, types, shapes and places of its tensors, metadata, bytes."""
    metadata = {key: value for key, value in header["__metadata__"].items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps({**header, "__metadata__": metadata}, sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def check_fit(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Refuse tensors that are not those of a network."""
    expected = model.state_dict()
    missing, unknown = sorted(expected.keys() - shapes.keys()), sorted(shapes.keys() - expected.keys())
    wrong = [name for name in expected.keys() & shapes.keys() if expected[name].shape != shapes[name]]
    if missing or unknown or wrong:
        raise WeightsError(
            f"{source}: does not fit its config: {len(missing)} tensors missing {missing[:3]}, "
            f"{len(unknown)} unknown {unknown[:3]}, {len(wrong)} of another shape {sorted(wrong)[:3]}"
        )


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a network these numbers, as float32."""
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
