"""The predictor that runs on ONNX Runtime. Needs no torch."""

from attcr.errors import ConfigError, WeightsError
from attcr.extras import needed
from attcr.predict.onnx import CHANGE, CLOUDY, OnnxNetwork
from attcr.predict.predictor import Float32, GraphPredictor, first_line, gave_up

with needed():
    import onnxruntime

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxRuntimePredictor(GraphPredictor):
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
        runs = {"backend": "onnxruntime", "version": onnxruntime.__version__, "dtype": dtype}
        super().__init__(network.header, {"weights_sha256": network.source_sha256, **runs})

    def _change(self, x: Float32) -> Float32:
        try:
            change: Float32 = self._session.run([CHANGE], {CLOUDY: x})[0]
        except Exception as error:  # its own kinds have no common parent
            raise gave_up("ONNX Runtime", x, error) from error
        return change
