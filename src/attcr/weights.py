"""Weights: the table of published ones, load, save, and import of the authors' checkpoints. safetensors only."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from attcr.errors import AttcrError, ConfigError, WeightsError
from attcr.files import sha256, write_whole
from attcr.networks.attcr import ATTCR, ATTCRConfig

FORMAT = "attcr-1"

OFFICIAL_HEADS = (2, 2, 8, 2, 2)
"""Heads of the authors' networks: the one setting that leaves no trace in the shapes."""


@dataclass(frozen=True)
class Score:
    """What a published network reached on a list of images, and where it began."""

    benchmark: str
    """Data set, part and number of images."""
    protocol: str
    metric: str
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    input_copied: float
    """The same metric of the cloudy image itself."""


@dataclass(frozen=True)
class Published:
    """A network whose weights are in the package."""

    name: str
    sha256: str
    bytes: int
    config: ATTCRConfig
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


@cache
def published() -> Mapping[str, Published]:
    """The networks in the package, by name."""
    table = json.loads((files("attcr") / "published" / "table.json").read_text())
    return {
        name: Published(
            **{
                **entry,
                "name": name,
                "config": ATTCRConfig(**entry["config"]),
                "scores": tuple(Score(**score) for score in entry["scores"]),
                "limits": tuple(entry["limits"]),
            }
        )
        for name, entry in table.items()
    }


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
        from attcr.hub import fetch

        return fetch(text)
    if not Path(text).is_file():
        raise WeightsError(
            f"{text}: no such file, and no published name. Published are {', '.join(published())}; or give the path "
            "of a .safetensors file, hf://OWNER/NAME, or a URL"
        )
    return Path(text)


def save_model(model: ATTCR, path: str | os.PathLike[str], *, provenance: Mapping[str, Any] | None = None) -> str:
    """Write the weights with their config, provenance and a digest of it all; give the file's sha256.

    `provenance` is anything JSON can hold: sensor, training recipe, split, scores. The file appears under its
    name only when it is whole.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    metadata = {
        "format": FORMAT,
        "config": json.dumps(asdict(model.config)),
        "provenance": json.dumps(dict(provenance or {})),
    }
    digest = _digest_of(*_parts(safetensors.torch.save(tensors, metadata)))
    content = safetensors.torch.save(tensors, {**metadata, "sha256": digest})
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def load_model(source: str | os.PathLike[str]) -> ATTCR:
    """Give a network ready for inference, in float32 on the CPU, by anything that `find_weights` takes."""
    path = find_weights(source)
    content, header = _read(path)
    try:
        model = ATTCR(ATTCRConfig(**json.loads(header["__metadata__"]["config"])))
    except (TypeError, ValueError, ConfigError) as error:
        raise WeightsError(f"{path}: the config in its metadata is of another version or damaged ({error})") from error
    shapes = {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    _check_fit(model, shapes, str(path))
    _fill(model, safetensors.torch.load(content))
    return model.eval()


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Check that a file is whole and ours, and give its metadata; no tensor is built."""
    metadata: dict[str, str] = _read(Path(path))[1]["__metadata__"]
    return metadata


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a file once, check that it is whole and ours, and give its bytes and its header."""
    metadata = _metadata(path)
    if metadata.get("format") != FORMAT or "config" not in metadata or "sha256" not in metadata:
        raise WeightsError(
            f"{path}: a safetensors file, but not saved by attcr (metadata has {sorted(metadata) or 'nothing'}). "
            "If it is the authors' checkpoint, run: attcr convert IN OUT"
        )
    content = path.read_bytes()
    header, data = _parts(content)
    if _digest_of(header, data) != header["__metadata__"]["sha256"]:
        raise WeightsError(f"{path}: its bytes are not those that were saved. Fetch it again")
    return content, header


def _metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, however it was made."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
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


def _check_fit(model: ATTCR, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    expected = model.state_dict()
    missing, unknown = sorted(expected.keys() - shapes.keys()), sorted(shapes.keys() - expected.keys())
    wrong = [name for name in expected.keys() & shapes.keys() if expected[name].shape != shapes[name]]
    if missing or unknown or wrong:
        raise WeightsError(
            f"{source}: does not fit its config: {len(missing)} tensors missing {missing[:3]}, "
            f"{len(unknown)} unknown {unknown[:3]}, {len(wrong)} of another shape {sorted(wrong)[:3]}"
        )


def _fill(model: ATTCR, tensors: Mapping[str, Tensor]) -> None:
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})


_OFFICIAL_STAGES = ("encoder_level1", "encoder_level2", "encoder_level3", "decoder_level3", "decoder_level1")
_OFFICIAL_NAMES = {
    "patch_embed.proj": "embed",
    "down1_2.body.0": "down.0",
    "down2_3.body.0": "down.1",
    "up3_2.body.0": "up.0",
    "up2_1.body.0": "up.1",
    "reduce_chan_level3": "fuse",
    "output": "output",
}
_OFFICIAL_BLOCK_NAMES = {
    "norm1.body": "norm1",
    "norm2.body": "norm2",
    "ffn.project_in": "feed.expand",
    "ffn.dwconv": "feed.spread",
    "ffn.project_out": "feed.shrink",
    "gloabl_attn.query": "attention.query",  # so misspelt in the authors' checkpoints
    "gloabl_attn.proj": "attention.merge",
    "gloabl_attn.output_linear": "attention.out",
    "gloabl_attn.gate.0": "attention.gate.shrink",
    "gloabl_attn.gate.2": "attention.gate.look",
    "gloabl_attn.gate.4": "attention.gate.expand",
}
_OFFICIAL_SCALE = re.compile(r"gloabl_attn\.aggreg\.(\d+)\.([01])")


def from_official(state_dict: Mapping[str, Any], *, heads: tuple[int, ...] = OFFICIAL_HEADS) -> ATTCR:
    """Build the network from a state dict of the authors' code, bare or as {'params': ...}.

    The config is read off the shapes; only the heads cannot be. Every key must be known and every tensor used.
    """
    params = state_dict.get("params", state_dict)
    if not isinstance(params, Mapping) or not params or not all(isinstance(t, Tensor) for t in params.values()):
        raise WeightsError("expected a dict of tensors, or {'params': such a dict}, from the authors' code")
    tensors: dict[str, Tensor] = {}
    for key, tensor in params.items():
        tensors[_our_name(key)] = tensor
    model = ATTCR(_infer_config(tensors, heads))
    _check_fit(model, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, "the authors' checkpoint")
    _fill(model, tensors)
    return model.eval()


def _our_name(key: str) -> str:
    """Our name of one of the authors' keys."""
    place, _, kind = key.removeprefix("module.").rpartition(".")
    stage, _, rest = place.partition(".")
    if place in _OFFICIAL_NAMES and kind == "weight":
        return f"{_OFFICIAL_NAMES[place]}.{kind}"
    if stage in _OFFICIAL_STAGES and kind in ("weight", "bias"):
        block, _, inner = rest.partition(".")
        prefix = f"stages.{_OFFICIAL_STAGES.index(stage)}.{block}"
        if block.isdigit() and inner in _OFFICIAL_BLOCK_NAMES:
            return f"{prefix}.{_OFFICIAL_BLOCK_NAMES[inner]}.{kind}"
        if block.isdigit() and (scale := _OFFICIAL_SCALE.fullmatch(inner)):
            return f"{prefix}.attention.scales.{scale[1]}.{'spread' if scale[2] == '1' else 'project'}.{kind}"
    raise WeightsError(f"key {key!r} is not of the authors' ATT-CR network; only its checkpoints can be converted")


def _infer_config(tensors: Mapping[str, Tensor], heads: tuple[int, ...]) -> ATTCRConfig:
    """Read the config off names and shapes."""
    try:
        dim, in_channels = tensors["embed.weight"].shape[:2]
        out_channels = tensors["output.weight"].shape[0]
    except (KeyError, ValueError) as error:
        raise WeightsError("the checkpoint has no embedding or output convolution; it is not whole") from error
    blocks, scales = [], []
    for stage in range(len(heads)):
        numbers = {int(name.split(".")[2]) for name in tensors if name.startswith(f"stages.{stage}.")}
        blocks.append(max(numbers, default=-1) + 1)
        prefix = f"stages.{stage}.0.attention.scales."
        count = max(
            (int(name.removeprefix(prefix).split(".")[0]) for name in tensors if name.startswith(prefix)), default=-1
        )
        spreads = (tensors.get(f"{prefix}{i}.spread.weight") for i in range(count + 1))
        scales.append(tuple(1 if kernel is None else kernel.shape[-1] for kernel in spreads))
    try:
        return ATTCRConfig(
            in_channels=in_channels,
            out_channels=out_channels,
            residual=tuple(range(in_channels - out_channels, in_channels)),  # the authors add to the last channels
            dim=dim,
            blocks=tuple(blocks),
            heads=heads,
            scales=tuple(scales),
            gate="stages.0.0.attention.gate.look.weight" in tensors,
        )
    except ConfigError as error:
        raise WeightsError(f"the checkpoint's shapes give no ATT-CR network: {error}") from error


def convert_official(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, heads: tuple[int, ...] | None = None
) -> ATTCR:
    """Read the authors' checkpoint (.pth or safetensors with their key names) and save it as ours.

    Heads are taken from the call, from a `config` in the file's metadata, or are the authors' own, in this order.
    """
    path = Path(source)
    if not path.is_file():
        raise WeightsError(f"{path}: no such file")
    metadata: dict[str, str] = {}
    if path.suffix == ".safetensors":
        metadata = _metadata(path)
        state = safetensors.torch.load_file(path)
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises UnpicklingError, RuntimeError, EOFError, ... for a bad file
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise WeightsError(
                f"{path}: not a checkpoint that torch loads with weights_only=True ({reason})"
            ) from error
        if not isinstance(state, Mapping):
            raise WeightsError(f"{path}: holds a {type(state).__name__}; expected a dict of tensors")
    if heads is None:
        try:
            heads = tuple(json.loads(metadata.get("config", "{}")).get("heads", OFFICIAL_HEADS))
        except (json.JSONDecodeError, AttributeError, TypeError):
            heads = OFFICIAL_HEADS
    try:
        model = from_official(state, heads=heads)
    except AttcrError as error:
        raise WeightsError(f"{path}: {error}") from error
    save_model(model, target, provenance={"converted_from": path.name, "sha256": sha256(path)})
    return model
