"""The predictor that runs on ONNX Runtime. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, SceneError, WeightsError
from attcr.extras import needed
from attcr.predict.onnx import CHANGE, CLOUDY, OnnxNetwork
from attcr.predict.predictor import Float32, first_line, run_padded

with needed():
    import onnxruntime

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxRuntimePredictor:
    """A network in a session of ONNX Runtime, in float32."""

    def __init__(self, network: OnnxNetwork, *, device: str = "cpu", dtype: str = "float32", threads: int = 0) -> None:
        if dtype != "float32":
            raise ConfigError(
                f"dtype {dtype} came with the backend onnxruntime, which computes in float32: leave it out, or use the "
                "backend openvino or torch."
            )
        kind, _, number = device.partition(":")
        usable = [name for name, of in _PROVIDERS.items() if of in onnxruntime.get_available_providers()]
        if kind not in usable or (number and not number.isdecimal()):
            raise ConfigError(f"ONNX Runtime cannot use device {device!r} here: it has {', '.join(usable)}.")
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.intra_op_num_threads = threads
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads would starve others
        place = (_PROVIDERS[kind], {"device_id": number} if number else {})
        try:
            self._session = onnxruntime.InferenceSession(network.content, settings, providers=[place])
        except Exception as error:  # its own kinds have no common parent
            raise WeightsError(f"ONNX Runtime does not take the network: {first_line(error)}") from error
        self._header = network.header
        self.spec: InputSpec = network.header.spec
        self.identity: Mapping[str, str] = {
            "weights_sha256": network.source_sha256,
            "backend": "onnxruntime",
            "version": onnxruntime.__version__,
            "dtype": dtype,
        }

    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W)."""
        return run_padded(x, self._header, self._change)

    def _change(self, x: Float32) -> Float32:
        try:
            change: Float32 = self._session.run([CHANGE], {CLOUDY: x})[0]
        except Exception as error:  # its own kinds have no common parent
            raise SceneError(
                f"ONNX Runtime gave up on {x.shape[0]} tiles of {x.shape[3]} x {x.shape[2]}: {first_line(error)}. "
                "If memory ran out, use a smaller batch or tile."
            ) from error
        return change
