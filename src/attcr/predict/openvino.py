"""The predictor that runs on OpenVINO, and files of its own format (IR: NAME.xml and NAME.bin). Needs no torch."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from attcr.errors import ConfigError, MissingExtraError, SceneError, WeightsError
from attcr.predict.exported import CHANGE, first_line, metadata_of, read_bounded, read_metadata, run_padded
from attcr.predict.predictor import Float32
from attcr.spec import InputSpec
from attcr.weights import WeightsHeader

if TYPE_CHECKING:
    from attcr.predict.onnx import OnnxNetwork

try:
    import openvino
except ImportError as error:
    raise MissingExtraError("openvino", "openvino") from error

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
OPERATIONS = {
    "Add",
    "Broadcast",
    "Concat",
    "Const",
    "Convert",
    "Convolution",
    "CumSum",
    "DepthToSpace",
    "Divide",
    "Erf",
    "Exp",
    "Gather",
    "Gelu",
    "GroupConvolution",
    "MVN",
    "MatMul",
    "Minimum",
    "Multiply",
    "PReLU",
    "Pad",
    "Parameter",
    "Range",
    "ReLU",
    "ReduceSum",
    "Reshape",
    "Result",
    "ShapeOf",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "StridedSlice",
    "Subtract",
    "Transpose",
    "Unsqueeze",
    "VariadicSplit",
}
"""What a network of ours may become in OpenVINO. None of them runs code of others or reads a file."""
MOST_LAYERS = 20_000
MOST_ALONG_AN_AXIS = 1 << 24
"""The largest integer in the numbers of a network, which are lengths, places and axes."""


@dataclass(frozen=True)
class OpenVinoNetwork:
    """A network as OpenVINO reads it: an ONNX model, or an IR with its numbers."""

    content: bytes
    numbers: bytes | None
    header: WeightsHeader
    source_sha256: str
    """Of the file that it came from; that of an IR's .xml covers its .bin."""


class OpenVinoPredictor:
    """A network compiled by OpenVINO, in the type that is asked for."""

    def __init__(
        self, network: OpenVinoNetwork, *, device: str = "cpu", dtype: str = "float32", threads: int = 0
    ) -> None:
        if dtype not in PRECISIONS:
            raise ConfigError(f"dtype is {dtype!r}; the backend openvino has {', '.join(PRECISIONS)}.")
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": PRECISIONS[dtype], "PERFORMANCE_HINT": "LATENCY"}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        core = openvino.Core()
        try:
            model = _read(core, network)
        except RuntimeError as error:
            raise WeightsError(f"OpenVINO does not take the network: {first_line(error)}") from error
        try:
            self._compiled = core.compile_model(model, device.upper(), settings)
        except RuntimeError as error:
            usable = ", ".join(name.lower() for name in core.available_devices)
            raise ConfigError(
                f"OpenVINO cannot run on device {device!r} in {dtype}: {first_line(error)}. It has {usable}."
            ) from error
        self._requests = threading.local()
        self._header = network.header
        self.spec: InputSpec = network.header.spec
        self.identity: Mapping[str, str] = {
            "weights_sha256": network.source_sha256,
            "backend": "openvino",
            "version": openvino.__version__,
            "dtype": dtype,
        }

    @classmethod
    def from_file(
        cls, path: Path, *, device: str = "cpu", dtype: str = "float32", threads: int = 0
    ) -> OpenVinoPredictor:
        """Load weights (.safetensors), or what `attcr export` made of them (.xml with its .bin, .onnx)."""
        if path.suffix.lower() == ".xml":
            network = network_from_ir(path)
        else:
            from attcr.predict.onnx import network_from_onnx, network_from_weights

            built = network_from_onnx(path) if path.suffix.lower() == ".onnx" else network_from_weights(path)
            network = OpenVinoNetwork(built.content, None, built.header, built.source_sha256)
        return cls(network, device=device, dtype=dtype, threads=threads)

    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W)."""
        return run_padded(x, self._header, self._change)

    def _change(self, x: Float32) -> Float32:
        if not hasattr(self._requests, "mine"):  # a request serves one call at a time
            self._requests.mine = self._compiled.create_infer_request()
        try:
            self._requests.mine.infer([x], share_inputs=True)
            change: Float32 = self._requests.mine.get_tensor(CHANGE).data
        except RuntimeError as error:
            raise SceneError(
                f"OpenVINO gave up on {x.shape[0]} tiles of {x.shape[3]} x {x.shape[2]}: {first_line(error)}. "
                "If memory ran out, use a smaller batch or tile."
            ) from error
        return change


def _read(core: openvino.Core, network: OpenVinoNetwork) -> openvino.Model:
    if network.numbers is None:
        return core.read_model(network.content)
    numbers = openvino.Tensor(np.frombuffer(network.numbers, np.uint8), shared_memory=False)
    return core.read_model(network.content, numbers)


def write_ir(network: OnnxNetwork, target: Path) -> None:
    """Turn an ONNX model of ours into TARGET (.xml) and the .bin of the same name, in float32, with its metadata."""
    model = openvino.Core().read_model(network.content)
    openvino.save_model(model, target, compress_to_fp16=False)
    numbers = hashlib.sha256(bin_of(target).read_bytes()).hexdigest()
    told = {**metadata_of(network.header, network.source_sha256), "bin_sha256": numbers}
    for name, value in told.items():
        model.set_rt_info(value, ["attcr", name])
    openvino.save_model(model, target, compress_to_fp16=False)  # again: the metadata names the numbers


def bin_of(xml: Path) -> Path:
    """Give the file with the numbers of an IR."""
    return xml.with_suffix(".bin")


def network_from_ir(path: Path) -> OpenVinoNetwork:
    """Read an IR that `attcr export` wrote, refusing what does not belong to one before OpenVINO sees it."""
    content, tree = read_bounded(path), None
    if b"<!DOCTYPE" not in content and b"<!ENTITY" not in content:
        try:
            tree = ElementTree.fromstring(content)
        except ElementTree.ParseError:
            tree = None
    if tree is None or tree.tag != "net":
        raise WeightsError(f"{path}: damaged, or no OpenVINO file. Export it again: attcr export WEIGHTS {path}")
    metadata = {entry.tag: entry.get("value", "") for entry in tree.iterfind("./rt_info/attcr/*")}
    header, _ = read_metadata(metadata, path)
    if not bin_of(path).is_file():
        raise WeightsError(f"{bin_of(path)}: not there. It holds the numbers of {path.name}: keep the two together")
    numbers = read_bounded(bin_of(path))
    if hashlib.sha256(numbers).hexdigest() != metadata.get("bin_sha256"):
        raise WeightsError(f"{bin_of(path)}: not the numbers that {path.name} was written with. {_AGAIN}")
    strange = _strange(tree, numbers)
    if strange:
        raise WeightsError(f"{path}: {strange}, which no network of attcr has. {_AGAIN}")
    return OpenVinoNetwork(content, numbers, header, hashlib.sha256(content).hexdigest())


_AGAIN = "Export the weights again: attcr export WEIGHTS FILE.xml"


def _strange(tree: ElementTree.Element, numbers: bytes) -> str | None:
    """Say what in an IR is none of ours: an operation, a tensor beyond the numbers, an absurd length."""
    layers = tree.findall("./layers/layer")
    if len(layers) > MOST_LAYERS or len(layers) != len(list(tree.iter("layer"))):
        return f"{len(layers)} layers, or layers inside others"
    for layer in layers:
        kind, version = layer.get("type", ""), layer.get("version", "")
        if kind not in OPERATIONS or not version.startswith("opset"):
            return f"the operation {kind!r} of {version!r}"
        data = layer.find("data")
        told = {} if data is None else data.attrib
        start, length = told.get("offset", "0"), told.get("size", "0")
        if not (start.isdecimal() and length.isdecimal() and int(start) + int(length) <= len(numbers)):
            return f"a tensor at {start} + {length} of {len(numbers)} bytes"
        if kind == "Const" and told.get("element_type") in ("i32", "i64"):
            each = np.dtype("<i4" if told["element_type"] == "i32" else "<i8")
            integers = np.frombuffer(numbers, each, int(length) // each.itemsize, int(start))
            open_ends = (np.iinfo(each).min, np.iinfo(each).max)
            absurd = integers[(abs(integers) > MOST_ALONG_AN_AXIS) & ~np.isin(integers, open_ends)]
            if absurd.size:
                return f"the length {absurd[0]}"
    return None
