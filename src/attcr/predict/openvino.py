"""The predictor that runs on OpenVINO, and files of its own format (IR: NAME.xml and NAME.bin). Needs no torch.

Files have the attention in standard operations. On CPUs with the compiled operator (`attcr.compiled`) it takes their
place when a network is loaded.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from attcr import compiled
from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, SceneError, WeightsError
from attcr.extras import needed
from attcr.predict.exported import (
    ATTENDED,
    CHANGE,
    KEYS_VALUES,
    QUERIES,
    first_line,
    metadata_of,
    read_bounded,
    read_metadata,
    run_padded,
)
from attcr.predict.predictor import Float32
from attcr.weights import WeightsHeader

if TYPE_CHECKING:
    from attcr.predict.onnx import OnnxNetwork

with needed():
    import openvino
    from openvino import opset13

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
    "MatMul",
    "Minimum",
    "Multiply",
    "PReLU",
    "Pad",
    "Parameter",
    "Range",
    "ReLU",
    "ReduceMean",
    "ReduceSum",
    "Reshape",
    "Result",
    "ShapeOf",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "StridedSlice",
    "Subtract",
    "Transpose",
    "Unsqueeze",
    "VariadicSplit",
}
"""What a network of ours may become in OpenVINO. None of them runs code of others or reads a file."""
MOST_SHAPES = 2
"""Shapes of images that are kept compiled, with their memory: whole batches of tiles, and the last batch."""
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
        core = openvino.Core()
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": PRECISIONS[dtype], "PERFORMANCE_HINT": "LATENCY"}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        self._device, self._settings = device.upper(), settings
        try:
            core.get_property(self._device, "FULL_DEVICE_NAME")
        except RuntimeError as error:
            usable = ", ".join(name.lower() for name in core.available_devices)
            raise ConfigError(
                f"OpenVINO cannot run on device {device!r} in {dtype}: {first_line(error)}. It has {usable}."
            ) from error
        served, threads = 0, threads or _cores()
        try:
            self._model = _read(core, network)
            if device == "cpu" and dtype in ("float32", "bfloat16"):
                served = put_kernel(self._model, network.header.config, bfloat16=dtype == "bfloat16", threads=threads)
        except RuntimeError as error:
            raise WeightsError(f"OpenVINO does not take the network: {first_line(error)}") from error
        self._core, self._compiling = core, threading.Lock()
        self._compiled: dict[tuple[int, ...], openvino.CompiledModel] = {}
        self._requests = threading.local()
        self._header = network.header
        self.spec: InputSpec = network.header.spec
        self.identity: Mapping[str, str] = {
            "weights_sha256": network.source_sha256,
            "backend": "openvino",
            "version": openvino.__version__,
            "dtype": dtype,
            "operator": "kernel" if served else "standard",
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
        try:
            request = self._request(x.shape)
            request.infer([x], share_inputs=True)
            change: Float32 = request.get_tensor(CHANGE).data
        except RuntimeError as error:
            raise SceneError(
                f"OpenVINO gave up on {x.shape[0]} tiles of {x.shape[3]} x {x.shape[2]}: {first_line(error)}. "
                "If memory ran out, use a smaller batch or tile."
            ) from error
        return change

    def _request(self, shape: tuple[int, ...]) -> openvino.InferRequest:
        """Give this thread's request for images of a shape: a request serves one call at a time.

        Each shape is compiled by itself, once in a second or two: with free sizes a run takes about 1.5 times as long.
        """
        with self._compiling:
            model = self._compiled.pop(shape, None)
            if model is None:
                fixed = self._model.clone()
                fixed.reshape(list(shape))
                model = self._core.compile_model(fixed, self._device, self._settings)
            self._compiled[shape] = model  # at the end: the first are those that were not used for longest
            for old in list(self._compiled)[:-MOST_SHAPES]:
                del self._compiled[old]
        mine = self._requests.__dict__.setdefault("mine", {})
        if shape not in mine or mine[shape][0] is not model:
            for old in [old for old in mine if old not in self._compiled]:
                del mine[old]
            mine[shape] = model, model.create_infer_request()
        request: openvino.InferRequest = mine[shape][1]
        return request


def _read(core: openvino.Core, network: OpenVinoNetwork) -> openvino.Model:
    if network.numbers is None:
        return core.read_model(network.content)
    numbers = openvino.Tensor(np.frombuffer(network.numbers, np.uint8), shared_memory=False)
    return core.read_model(network.content, numbers)


class Attend(openvino.Op):  # type: ignore[misc]
    """The triangular attention by compiled code: queries (B, H, W, C) and keys with values (B, H, W, 2C) of each scale.

    It gives (B, H, W, scales * C), in the type that came: float32 or bfloat16.
    """

    def __init__(self, inputs: Sequence[Any] | None = None, heads: int = 2, threads: int = 1) -> None:
        self.heads, self.threads = heads, threads
        super().__init__(self, inputs)

    def validate_and_infer_types(self) -> None:
        """Tell OpenVINO what comes out."""
        kind, (*free, channels) = self.get_input_element_type(0), self.get_input_partial_shape(0)
        scales = self.get_input_size() - 1
        self.set_output_type(0, kind, openvino.PartialShape([*free, scales * channels.get_length()]))

    def clone_with_new_inputs(self, inputs: Sequence[Any]) -> Attend:
        """Give the same for other inputs."""
        return Attend(inputs, self.heads, self.threads)

    def has_evaluate(self) -> bool:
        """Say that it computes itself."""
        return True

    def evaluate(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
        """Attend, scale by scale."""
        batch, height, width, channels = inputs[0].shape
        size, tokens, dim = inputs[0].element_type.size, height * width, channels // self.heads
        expected = [batch, height, width, 2 * channels]
        if any(list(each.shape) != expected or each.element_type.size != size for each in inputs[1:]):
            raise ValueError(f"keys and values came as {[list(each.shape) for each in inputs[1:]]}, not {expected}")
        z = np.empty((batch, self.heads, tokens), np.float32)
        starts = [tensor.data.ctypes.data for tensor in (*inputs, outputs[0])]
        queries, given, out = starts[0], starts[1:-1], starts[-1]

        def laid(start: int, wide: int, *, after: int = 0) -> compiled.Tokens:
            """Tokens of `wide` numbers, of which the ones meant come `after` others."""
            return compiled.Tokens(start + after * size, tokens * wide, dim, wide)

        for scale, both in enumerate(given):
            job = compiled.Job(
                q=laid(queries, channels),
                k=laid(both, 2 * channels),
                v=laid(both, 2 * channels, after=channels),
                out=laid(out, len(given) * channels, after=scale * channels),
                z=z.ctypes.data,
                batch=batch,
                heads=self.heads,
                tokens=tokens,
                dim=dim,
                bfloat16=size == 2,
                threads=min(self.threads, batch * self.heads),  # no sequence is cut, as in attcr.ops.kernel
            )
            compiled.run(job, compiled.LANES)
        return True


def put_kernel(model: openvino.Model, config: Mapping[str, Any], *, bfloat16: bool, threads: int) -> int:
    """Put the compiled operator in the place of each attention that it serves, and give how many there were."""
    if not compiled.LANES or config["attention"] != "triangular":
        return 0
    named = {name: output for node in model.get_ordered_ops() for output in node.outputs() for name in output.names}
    count = 0
    for stage, (blocks, heads, scales) in enumerate(
        zip(*(config[k] for k in ("blocks", "heads", "scales")), strict=True)
    ):
        for block in range(blocks):
            name = f"stages.{stage}.{block}.attention"
            wanted = [name + QUERIES, *(f"{name}{KEYS_VALUES}{number}" for number in range(len(scales)))]
            if not {*wanted, name + ATTENDED} <= named.keys():
                continue
            channels = named[wanted[0]].partial_shape[1].get_length()
            if channels % heads or channels // heads not in compiled.SIZES:
                continue
            last = [opset13.transpose(named[each], np.array([0, 2, 3, 1])) for each in wanted]
            if bfloat16:
                last = [opset13.convert(each, "bf16") for each in last]
            attended = Attend([each.output(0) for each in last], heads, threads)
            if bfloat16:
                attended = opset13.convert(attended, "f32")
            first = opset13.transpose(attended, np.array([0, 3, 1, 2]))
            named[name + ATTENDED].replace(first.output(0))
            count += 1
    model.validate_nodes_and_infer_types()
    return count


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
