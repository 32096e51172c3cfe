"""The predictor that runs on OpenVINO. Needs no torch.

Models have the attention in standard operations. On CPUs with the compiled operator (`attcr.compiled`) it takes their
place when a network is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attcr import compiled
from attcr.errors import ConfigError, WeightsError
from attcr.extras import needed
from attcr.files import cores
from attcr.predict.onnx import ATTENDED, CHANGE, KEYS_VALUES, QUERIES, OnnxNetwork
from attcr.predict.predictor import Float32, GraphPredictor, first_line, gave_up

with needed():
    import openvino
    from openvino import opset13

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
MOST_SHAPES = 2
"""Shapes of images that are kept compiled, with their memory: whole batches of tiles, and the last batch."""


class OpenVinoPredictor(GraphPredictor):
    """A network compiled by OpenVINO, in the type that is asked for."""

    def __init__(self, network: OnnxNetwork, *, device: str = "cpu", dtype: str = "float32", threads: int = 0) -> None:
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
        served, threads = 0, threads or cores()
        try:
            self._model = core.read_model(network.content)
            if device == "cpu" and dtype in ("float32", "bfloat16"):
                served = put_kernel(self._model, network.header.config, bfloat16=dtype == "bfloat16", threads=threads)
        except RuntimeError as error:
            raise WeightsError(f"OpenVINO does not take the network: {first_line(error)}") from error
        self._core, self._compiling = core, threading.Lock()
        self._compiled: dict[tuple[int, ...], openvino.CompiledModel] = {}
        self._requests = threading.local()
        runs = {"backend": "openvino", "version": openvino.__version__, "dtype": dtype}
        operator = {"operator": "kernel" if served else "standard"}
        super().__init__(network.header, {"weights_sha256": network.source_sha256, **runs, **operator})

    def _change(self, x: Float32) -> Float32:
        try:
            request = self._request(x.shape)
            request.infer([x], share_inputs=True)
            change: Float32 = request.get_tensor(CHANGE).data
        except RuntimeError as error:
            raise gave_up("OpenVINO", x, error) from error
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

        def laid(start: int, wide: int, *, after: int = 0) -> compiled.Strided:
            """Tokens of `wide` numbers, of which the ones meant come `after` others."""
            return compiled.Strided(start + after * size, tokens * wide, dim, wide)

        for scale, both in enumerate(given):
            job = compiled.AttentionCall(
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
