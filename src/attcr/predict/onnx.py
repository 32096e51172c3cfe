"""ATT-CR as an ONNX model, built from its config and weights without torch; and files of such models, read with care.

The graph has the standard operators of opset 18 alone, with batch, height and width free; height and width are
multiples of 4. It gives the restored image and, beside it, what the network adds to its input.
"""

# B batch, C channels of the stage, H W pixels, N = H*W tokens, h heads, d head dim, c = CHUNK, G = GROUP,
# M groups of G chunks of c tokens

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.errors import WeightsError
from attcr.extras import needed
from attcr.predict.predictor import MULTIPLE
from attcr.version import __version__
from attcr.weights import WRONG, WeightsHeader, header_of, read_tensors

with needed():
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import helper, numpy_helper

Tensors = Mapping[str, NDArray[Any]]

FORMAT = "attcr-export-2"
"""Counts changes of the graph: files of another count are exported again."""
CLOUDY, RESTORED, CHANGE = "cloudy", "restored", "change"
"""The input, the result, and what the network adds to its input to make it, by their names in the graph."""
QUERIES, KEYS_VALUES, ATTENDED = ".queries", ".keys_values.", ".attended"
"""What goes into an attention and comes out, by the ends of their names: a runtime may put something faster between.

`stages.2.0.attention.queries` (B, C, H, W), `stages.2.0.attention.keys_values.0` (B, 2C, H, W) for each scale, and
`stages.2.0.attention.attended` (B, scales * C, H, W).
"""
MOST_BYTES = 1 << 30
"""Bytes of a file, at most: a hundred times the paper's largest network."""
OPSET, IR_VERSION = 18, 8
"""Both of the end of 2022: what came later reads them."""
CHUNK, GROUP = 64, 32
"""Tokens that attend to each other by the definition, and chunks whose states are summed by one matrix product."""
EPS = 1e-6
"""Added to the normaliser of the attention; that of `attcr.ops`, which needs torch."""


@dataclass(frozen=True)
class OnnxNetwork:
    """A network as an ONNX model that was built here, whatever it came from."""

    content: bytes
    header: WeightsHeader
    source_sha256: str
    """Of the file that it came from."""


def network_from_file(path: Path) -> OnnxNetwork:
    """Give the model of weights (.safetensors), or of what `attcr export` made of them (.onnx)."""
    return network_from_onnx(path) if path.suffix.lower() == ".onnx" else network_from_weights(path)


def network_from_weights(path: Path) -> OnnxNetwork:
    """Build the model of a .safetensors file."""
    header, tensors, digest = read_tensors(path)
    return OnnxNetwork(build(header, tensors, digest, str(path)).SerializeToString(), header, digest)


def network_from_onnx(path: Path) -> OnnxNetwork:
    """Read a file that `attcr export` wrote. Its model is built again from its tensors, and must be the file's own.

    So nothing but a graph of ours ever reaches a runtime: no operator, file or size that a stranger chose.
    """
    content = read_bounded(path)
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise WeightsError(f"{path}: damaged, or no ONNX file. Export it again: attcr export WEIGHTS {path}") from error
    header, weights_sha256 = read_metadata({each.key: each.value for each in model.metadata_props}, path)
    stored = [*model.graph.initializer, *(sparse.values for sparse in model.graph.sparse_initializer)]
    if any(tensor.external_data or tensor.data_location for tensor in stored):
        raise WeightsError(f"{path}: keeps tensors in other files, which attcr does not read. {_AGAIN}")
    try:
        tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in stored}
        built = build(header, tensors, weights_sha256, str(path))
    except WRONG as error:
        raise WeightsError(f"{path}: its tensors are not those of its network ({error}). {_AGAIN}") from error
    if _bare(built) != _bare(model):
        raise WeightsError(f"{path}: its graph is not the one that this version of attcr writes. {_AGAIN}")
    return OnnxNetwork(built.SerializeToString(), header, hashlib.sha256(content).hexdigest())


_AGAIN = "Export the weights again: attcr export WEIGHTS FILE.onnx"


def read_bounded(path: Path) -> bytes:
    """Read a file of at most MOST_BYTES."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(content) > MOST_BYTES:
        raise WeightsError(f"{path}: has more than {MOST_BYTES:,} bytes, which no exported network has")
    return content


def metadata_of(header: WeightsHeader, weights_sha256: str) -> dict[str, str]:
    """Give what an exported file says of itself, as text under names."""
    return {
        "format": FORMAT,
        "attcr": __version__,
        "network": header.network,
        "config": json.dumps(dict(header.config)),
        "spec": json.dumps(header.spec.to_json()),
        "provenance": json.dumps(dict(header.provenance)),
        "weights_sha256": weights_sha256,
        "multiple": str(MULTIPLE),
    }


def read_metadata(metadata: Mapping[str, str], path: Path) -> tuple[WeightsHeader, str]:
    """Give what an exported file says of itself, and the sha256 of the weights that it was made from."""
    if metadata.get("format") != FORMAT:
        told = f"format {metadata['format']!r}" if "format" in metadata else "no format"
        raise WeightsError(
            f"{path}: {told} in its metadata, expected {FORMAT!r}: not exported by this version of attcr. Export the "
            f"weights again: attcr export WEIGHTS {path}"
        )
    return header_of(metadata, path), metadata.get("weights_sha256", "")


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give what a model computes, without what it says of itself."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    bare.ClearField("producer_version")
    bare.ClearField("metadata_props")
    return bare


def build(header: WeightsHeader, tensors: Tensors, weights_sha256: str, source: str) -> onnx.ModelProto:
    """Give the model of a network with its spec and provenance in the metadata."""
    if header.network != "attcr":
        raise WeightsError(
            f"{source}: of the network {header.network!r}, which runs on torch alone. Exported, and run elsewhere, are "
            "networks of the kind 'attcr'"
        )
    try:
        graph = _Graph(tensors)
        outputs = _attcr(graph, header.config)
    except KeyError as error:
        raise WeightsError(f"{source}: has no tensor or setting {error}, which its network needs") from error
    except WRONG as error:
        raise WeightsError(f"{source}: its tensors do not fit its config ({error})") from error
    unknown = sorted(tensors.keys() - graph.stored.keys())
    if unknown:
        raise WeightsError(f"{source}: {len(unknown)} tensors are not of its network, as {unknown[0]}")
    planes = {CLOUDY: len(header.spec.slots), **dict.fromkeys(outputs, tensors["output.weight"].shape[0])}
    values = {
        name: helper.make_tensor_value_info(
            name, onnx.TensorProto.FLOAT, ["batch", count, f"{MULTIPLE}*h", f"{MULTIPLE}*w"]
        )
        for name, count in planes.items()
    }
    whole = helper.make_graph(
        graph.nodes, "attcr", [values[CLOUDY]], [values[name] for name in outputs], list(graph.stored.values())
    )
    model = helper.make_model(
        whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="attcr"
    )
    helper.set_model_props(model, metadata_of(header, weights_sha256))
    return model


class _Graph:
    """Nodes and tensors, as they are added; each method gives the name of what it adds."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **settings: Any) -> str:
        names = list(outputs) or [f"{kind}.{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **settings))
        return names[0]

    def halves(self, x: str, *, axis: int) -> tuple[str, str]:
        first, second = (f"Split.{len(self.nodes)}.{half}" for half in (0, 1))
        self.add("Split", x, outputs=(first, second), axis=axis, num_outputs=2)
        return first, second

    def numbers(self, values: Any, kind: type[np.generic] = np.int64) -> str:
        """Keep a constant, once however often it is used."""
        array = np.asarray(values, kind)
        told = hashlib.sha256(f"{array.shape} {array.dtype}".encode() + array.tobytes()).hexdigest()[:16]
        return self.store(f"constant.{told}", array)

    def store(self, name: str, array: NDArray[Any]) -> str:
        if name not in self.stored:
            self.stored[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name: str, *, flat: bool = False) -> str:
        """Keep a tensor of the network as float32; `flat` is a linear layer's, as a 1 x 1 kernel."""
        array = self.tensors[name].astype(np.float32)
        if flat and array.ndim == 2:
            array = array[:, :, None, None]
        return self.store(name, array)

    def conv(self, x: str, name: str, *, depthwise: bool = False, outputs: Sequence[str] = ()) -> str:
        weight = self.weight(f"{name}.weight", flat=True)
        out, kernel = (self.stored[weight].dims[axis] for axis in (0, 3))
        bias = [self.weight(f"{name}.bias")] if f"{name}.bias" in self.tensors else []
        group = out if depthwise else 1
        return self.add("Conv", x, weight, *bias, outputs=outputs, pads=[kernel // 2] * 4, group=group)

    def reshape(self, x: str, *shape: int) -> str:
        """0 keeps a dimension, -1 takes the rest."""
        return self.add("Reshape", x, self.numbers(shape))

    def cut(self, x: str, end: str, *, axis: int, start: int = 0) -> str:
        return self.add("Slice", x, self.numbers([start]), end, self.numbers([axis]))


def _attcr(graph: _Graph, config: Mapping[str, Any]) -> tuple[str, str]:
    """The whole network of `attcr.networks.attcr`, by its names; give the names of what comes out."""
    e1 = _stage(graph, graph.conv(CLOUDY, "embed"), config, 0)
    e2 = _stage(graph, _down(graph, e1, "down.0"), config, 1)
    e3 = _stage(graph, _down(graph, e2, "down.1"), config, 2)
    d2 = graph.conv(graph.add("Concat", _up(graph, e3, "up.0"), e2, axis=1), "fuse")
    d2 = _stage(graph, d2, config, 3)
    d1 = graph.add("Concat", _up(graph, d2, "up.1"), e1, axis=1)
    y = graph.conv(_stage(graph, d1, config, 4), "output", outputs=[CHANGE])

    residual, planes = config["residual"], graph.tensors["output.weight"].shape[0]
    seen = graph.add("Gather", CLOUDY, graph.numbers(residual), axis=1)
    if len(residual) == planes:
        return graph.add("Add", y, seen, outputs=[RESTORED]), CHANGE
    added = graph.add("Add", graph.cut(y, graph.numbers([len(residual)]), axis=1), seen)
    rest = graph.cut(y, graph.numbers([planes]), axis=1, start=len(residual))
    return graph.add("Concat", added, rest, outputs=[RESTORED], axis=1), CHANGE


def _down(graph: _Graph, x: str, name: str) -> str:
    """Pixels of 2 x 2 become channels, as torch orders them: ONNX would put the place before the channel."""
    channels = graph.tensors[f"{name}.weight"].shape[0]
    order = np.arange(4 * channels).reshape(4, channels).T.reshape(-1)
    x = graph.add("SpaceToDepth", graph.conv(x, name), blocksize=2)
    return graph.add("Gather", x, graph.numbers(order), axis=1)


def _up(graph: _Graph, x: str, name: str) -> str:
    """Channels become pixels of 2 x 2."""
    return graph.add("DepthToSpace", graph.conv(x, name), blocksize=2, mode="CRD")


def _stage(graph: _Graph, x: str, config: Mapping[str, Any], stage: int) -> str:
    for block in range(config["blocks"][stage]):
        name = f"stages.{stage}.{block}"
        attended = _attention(graph, _norm(graph, x, f"{name}.norm1"), f"{name}.attention", config, stage)
        x = graph.add("Add", x, attended)
        x = graph.add("Add", x, _feed(graph, _norm(graph, x, f"{name}.norm2"), f"{name}.feed"))
    return x


def _norm(graph: _Graph, x: str, name: str) -> str:
    """The layer norm over channels, spelt out: the operator of ONNX wants them last, and two copies for it."""
    weight, bias = (graph.reshape(graph.weight(f"{name}.{part}"), 1, -1, 1, 1) for part in ("weight", "bias"))
    channels = graph.numbers([1])
    centred = graph.add("Sub", x, graph.add("ReduceMean", x, channels, keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), channels, keepdims=1)
    spread = graph.add("Sqrt", graph.add("Add", variance, graph.numbers(1e-5, np.float32)))
    return graph.add("Add", graph.add("Mul", graph.add("Div", centred, spread), weight), bias)


def _feed(graph: _Graph, x: str, name: str) -> str:
    """Each half by kernels of its own, so that no image is split."""
    expand, spread = (graph.weight(f"{name}.{part}.weight", flat=True) for part in ("expand", "spread"))
    hidden = graph.stored[spread].dims[0] // 2
    expands, spreads = graph.halves(expand, axis=0), graph.halves(spread, axis=0)
    a, b = (
        graph.add("Conv", graph.add("Conv", x, wide), near, pads=[1] * 4, group=hidden)
        for wide, near in zip(expands, spreads, strict=True)
    )
    bell = graph.add("Erf", graph.add("Div", a, graph.numbers(np.sqrt(2), np.float32)))
    gelu = graph.add("Mul", a, graph.add("Add", bell, graph.numbers(1, np.float32)))
    gelu = graph.add("Mul", gelu, graph.numbers(0.5, np.float32))
    return graph.conv(graph.add("Mul", gelu, b), f"{name}.shrink")


def _attention(graph: _Graph, x: str, name: str, config: Mapping[str, Any], stage: int) -> str:
    heads, shape = config["heads"][stage], graph.add("Shape", x)
    channels = graph.tensors[f"{name}.query.weight"].shape[0]
    if heads < 2 or heads % 2 or channels % heads:
        raise ValueError(f"{heads} heads must be even and divide {channels} channels")
    dim = channels // heads
    attend = {"triangular": _triangular, "linear": _linear, "none": _hand_on}[config["attention"]]
    query = _tokens(graph, graph.conv(x, f"{name}.query", outputs=[name + QUERIES]), heads, dim)
    attended = []
    for number, scale in enumerate(config["scales"][stage]):
        named = [f"{name}{KEYS_VALUES}{number}"]
        both = graph.conv(x, f"{name}.scales.{number}.project", outputs=[] if scale > 1 else named)
        if scale > 1:
            both = graph.conv(both, f"{name}.scales.{number}.spread", depthwise=True, outputs=named)
        keys, values = (_tokens(graph, half, heads, dim) for half in graph.halves(both, axis=1))
        mixed = attend(graph, query, keys, values, heads, dim)
        attended.append(graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 1, 3, 2]), shape))  # B, C, H, W
    y = graph.add("Concat", *attended, outputs=[name + ATTENDED], axis=1)
    if len(attended) > 1:
        y = graph.conv(y, f"{name}.merge")
    if config["gate"]:
        gate = graph.add("LeakyRelu", graph.conv(x, f"{name}.gate.shrink"), alpha=0.2)
        gate = graph.add("LeakyRelu", graph.conv(gate, f"{name}.gate.look"), alpha=0.2)
        y = graph.add("Mul", y, graph.conv(gate, f"{name}.gate.expand"))
    return graph.conv(y, f"{name}.out")


def _tokens(graph: _Graph, x: str, heads: int, dim: int) -> str:
    """(B, C, H, W) as (B, h, N, d)."""
    return graph.add("Transpose", graph.reshape(x, 0, heads, dim, -1), perm=[0, 1, 3, 2])


def _phi(graph: _Graph, x: str) -> str:
    """ELU + 1, written so that nothing is lost far below zero."""
    below = graph.add("Exp", graph.add("Min", x, graph.numbers(0, np.float32)))
    return graph.add("Add", graph.add("Relu", x), below)


def _hand_on(graph: _Graph, query: str, keys: str, values: str, heads: int, dim: int) -> str:
    """No attention at all, to measure what it costs."""
    return values


def _linear(graph: _Graph, query: str, keys: str, values: str, heads: int, dim: int) -> str:
    phi_q, phi_k = _phi(graph, query), graph.add("Transpose", _phi(graph, keys), perm=[0, 1, 3, 2])
    total = graph.add("ReduceSum", phi_k, graph.numbers([3]), keepdims=1)  # B, h, d, 1
    normaliser = graph.add("Add", graph.add("MatMul", phi_q, total), graph.numbers(EPS, np.float32))
    return graph.add("Div", graph.add("MatMul", phi_q, graph.add("MatMul", phi_k, values)), normaliser)


def _triangular(graph: _Graph, query: str, keys: str, values: str, heads: int, dim: int) -> str:
    """The sum of `attcr.ops.plain`: a chunk's own tokens by the definition, earlier ones through summed states.

    States are summed inside a group of chunks by one product with a triangle of ones, and from group to group by a
    running sum. Heads that look ahead have their triangles turned instead of their tokens.
    """
    count = graph.add("Shape", query, start=2, end=3)
    step = graph.numbers([CHUNK * GROUP])
    groups = graph.add("Div", graph.add("Add", count, graph.numbers([CHUNK * GROUP - 1])), step)
    missing = graph.add("Sub", graph.add("Mul", groups, step), count)
    fill = graph.add("Concat", graph.numbers([0] * 6), missing, graph.numbers([0]), axis=0)  # zeros add nothing

    def chunks(x: str, width: int) -> str:
        return graph.reshape(graph.add("Pad", x, fill), 0, heads, -1, GROUP, CHUNK, width)  # B, h, M, G, c, width

    ones = graph.add("Pad", values, graph.numbers([0] * 7 + [1]), graph.numbers(1, np.float32))  # for the normaliser
    v = chunks(ones, dim + 1)
    phi_q, phi_k = chunks(_phi(graph, query), dim), chunks(_phi(graph, keys), dim)
    turned = graph.add("Transpose", phi_k, perm=[0, 1, 2, 3, 5, 4])

    seen = graph.numbers(_triangles(heads, CHUNK)[:, :, None], np.float32)  # 1, h, 1, 1, c, c
    own = graph.add("MatMul", graph.add("Mul", graph.add("MatMul", phi_q, turned), seen), v)
    states = graph.reshape(graph.add("MatMul", turned, v), 0, heads, -1, GROUP, dim * (dim + 1))
    inside = graph.add("MatMul", graph.numbers(_triangles(heads, GROUP, strict=True), np.float32), states)
    back, ahead = graph.halves(graph.add("ReduceSum", states, graph.numbers([3]), keepdims=1), axis=1)
    running = graph.add(
        "Concat",
        graph.add("CumSum", back, graph.numbers(2), exclusive=1),
        graph.add("CumSum", ahead, graph.numbers(2), exclusive=1, reverse=1),
        axis=1,
    )
    earlier = graph.reshape(graph.add("Add", inside, running), 0, heads, -1, GROUP, dim, dim + 1)

    both = graph.add("Add", own, graph.add("MatMul", phi_q, earlier))
    whole = graph.cut(graph.reshape(both, 0, heads, -1, dim + 1), count, axis=2)  # B, h, N, d+1
    normaliser = graph.cut(whole, graph.numbers([dim + 1]), axis=3, start=dim)
    result = graph.cut(whole, graph.numbers([dim]), axis=3)
    return graph.add("Div", result, graph.add("Add", normaliser, graph.numbers(EPS, np.float32)))


def _triangles(heads: int, size: int, *, strict: bool = False) -> NDArray[np.float64]:
    """Ones where a head may see: the lower triangle for the first half of the heads, the upper for the others."""
    lower = np.tril(np.ones((size, size)), -1 if strict else 0)
    return np.stack([lower] * (heads // 2) + [lower.T] * (heads // 2))[None, :, None]  # 1, h, 1, size, size
