"""Weights files: networks with the spec that says what they take, written and read. safetensors only.

Headers and numbers are read without torch; it is imported to build a network.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, WeightsError
from attcr.files import write_whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

FORMAT = "attcr-2"
WRONG = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a config or a spec of the wrong kind, size or depth makes Python and torch raise."""


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


def load_file(path: Path, *, device: str | torch.device = "cpu") -> nn.Module:
    """Load a network for inference, in float32, with its `config` and its `spec`."""
    import safetensors.torch
    import torch

    from attcr.networks import NETWORKS

    content, header = _read(path)
    shapes = {name: tuple(at["shape"]) for name, at in header.items() if name != "__metadata__"}
    told = header_of(header["__metadata__"], path)
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


def read_file_header(path: Path) -> WeightsHeader:
    """Give what a file says of itself, after checking that it is complete; no tensor is built."""
    return header_of(_read(path)[1]["__metadata__"], path)


def read_tensors(path: Path) -> tuple[WeightsHeader, dict[str, NDArray[Any]], str]:
    """Check that a file is whole and ours; give what it says of itself, its tensors without torch, and its sha256."""
    content, header = _read(path)
    try:
        tensors = safetensors.numpy.load(content)
    except (SafetensorError, KeyError, TypeError) as error:
        raise WeightsError(f"{path}: its tensors are of a type that only torch reads ({error})") from error
    return header_of(header["__metadata__"], path), tensors, hashlib.sha256(content).hexdigest()


def header_of(metadata: Mapping[str, str], path: Path) -> WeightsHeader:
    """Give what the metadata of a file, also of an exported one, say of its network."""
    try:
        config, provenance = json.loads(metadata["config"]), json.loads(metadata.get("provenance", "{}"))
        if not isinstance(config, dict) or not isinstance(provenance, dict):
            raise ConfigError("config and provenance must be JSON objects")
        return WeightsHeader(metadata["network"], config, InputSpec.from_json(json.loads(metadata["spec"])), provenance)
    except WRONG as error:
        raise WeightsError(f"{path}: its metadata is of another version or damaged ({error})") from error


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a file once, check that it is whole and ours, and give its bytes and its header."""
    metadata = read_metadata(path)
    if metadata.get("format") != FORMAT or "config" not in metadata or "sha256" not in metadata:
        raise WeightsError(
            f"{path}: a safetensors file, but not saved by attcr (metadata has {sorted(metadata) or 'nothing'}). "
            "The authors' checkpoints are converted in a checkout: python -m benchmarks.paper convert IN OUT"
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
        raise WeightsError(
            f"{path}: {kind} ({error}). The authors' checkpoints are converted in a checkout: "
            "python -m benchmarks.paper convert IN OUT"
        ) from error


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
