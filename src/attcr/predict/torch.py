"""The predictor that runs on torch."""

import copy
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, SceneError, ShapeError
from attcr.ops import operator_name
from attcr.predict.predictor import Float32, as_a_veil

BYTES_OF_CHANNEL, SHORT = 145, 0.6
"""Bytes that a pixel takes for each channel of the network's width at full resolution, measured for widths of 16 and 24
on CPUs; the part of it that types of two bytes take."""


class TorchPredictor:
    """A module on its device, in one type. The module that came is left as it is."""

    def __init__(
        self,
        module: nn.Module,
        *,
        spec: InputSpec | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        threads: int = 0,
        weights_sha256: str | None = None,
    ) -> None:
        if threads:
            torch.set_num_threads(threads)
        spec = spec or getattr(module, "spec", None)
        if not isinstance(spec, InputSpec):
            raise ConfigError(
                f"{type(module).__name__} does not say what it takes: give it a `spec` (attcr.InputSpec), or load it "
                "with attcr.load_model."
            )
        self.spec = spec
        self._dtype: torch.dtype = getattr(torch, dtype)
        self.bytes_per_pixel = _bytes_per_pixel(module, spec, self._dtype)
        self._residual = [] if spec.corrects_references else spec.positions(spec.outputs)
        try:
            self._device = torch.device(device)
            self._module = _as_asked(module, self._device, self._dtype)
        except (RuntimeError, AssertionError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"The network cannot go to device {device!r}: {first}") from error
        self.identity: Mapping[str, str] = {
            "weights_sha256": weights_sha256 or _state_sha256(module),
            "backend": "torch",
            "dtype": dtype,
            "operator": operator_name(self._device.type, dtype),
        }

    @torch.inference_mode()
    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W)."""
        given = torch.from_numpy(x)
        seen = given.to(self._device, self._dtype)
        try:
            y: Tensor = self._module(seen)
        except torch.OutOfMemoryError as error:
            raise SceneError(
                f"A batch of {x.shape[0]} tiles of {x.shape[3]} x {x.shape[2]} does not fit into the memory of "
                f"{self._device}: use a smaller batch or tile."
            ) from error
        planes = len(self.spec.outputs) * (2 if self.spec.spread else 1)
        if tuple(y.shape) != (x.shape[0], planes, *x.shape[2:]):
            expected = (x.shape[0], planes, *x.shape[2:])
            raise ShapeError(f"The network gave {tuple(y.shape)} for {x.shape}; expected {expected}.")
        y = y.float()
        if self._dtype != torch.float32:
            # What the network adds is to what it saw; the rest is what came, not rounded.
            bands = len(self._residual)
            change = y[:, :bands] - seen[:, self._residual].float()
            y = torch.cat([given[:, self._residual].to(y) + change, y[:, bands:]], dim=1)
        return as_a_veil(self.spec, x, y.cpu().numpy())


def _bytes_per_pixel(module: nn.Module, spec: InputSpec, dtype: torch.dtype) -> int | None:
    """Give what a pixel of a tile takes while the network runs; None for a network that was not measured."""
    width: int | None = getattr(getattr(module, "config", None), "dim", None)
    if width is None:
        return None
    planes = len(spec.slots) + len(spec.outputs) * (2 if spec.spread else 1)
    return round(BYTES_OF_CHANNEL * width * (1 if dtype == torch.float32 else SHORT)) + 8 * planes


def _as_asked(module: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Give the module itself where it is ready, else a copy that is."""
    tensors = [*module.parameters(), *module.buffers()]
    ready = all(t.device == device and (t.dtype == dtype or not t.is_floating_point()) for t in tensors)
    if ready and not any(part.training for part in module.modules()):
        return module
    return copy.deepcopy(module).to(device, dtype).eval()


def _state_sha256(module: nn.Module) -> str:
    """Give a sha256 of a module's numbers by name, where no file's is known."""
    whole = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        whole.update(name.encode())
        numbers = tensor.detach().cpu().reshape(-1).contiguous()  # also where it is a single number
        whole.update(numbers.view(torch.uint8).numpy().tobytes() if numbers.numel() else b"")
    return whole.hexdigest()
