"""Simulated cloud: fractal optical thickness, two-stream reflection per band, and a shadow beside the cloud.

A cloud of optical thickness t reflects R = (1 - g) t / (2 + (1 - g) t) of the light (two-stream, without
absorption, g = 0.85) and lets T = 1 - R pass, down and up again: over ground of reflectance rho a satellite
sees R + T^2 rho. The real thin cloud of RICE1 obeys it: where regression finds the slope T^2, the offset is
1 - T within 0.1 for every image there, and within 0.05 for two in three (docs/reference/data.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.data.pairs import Sample
from attcr.errors import ConfigError, ShapeError

ASYMMETRY = 0.85  # of scattering by cloud droplets: most light goes on forward
# Share of the ground's light that comes from the sky and so reaches the shadow, by nm. The sky is blue.
SKYLIGHT = ((400, 0.40), (490, 0.28), (665, 0.16), (865, 0.10), (2190, 0.03))
# How bright a thick cloud is by nm, relative to 865: read off SEN12MS-CR's cloudiest pixels. At 945 and 1375
# water vapour above the cloud takes the light; at 1610 and 2190 the droplets do.
BRIGHTNESS = ((400, 0.88), (700, 0.88), (865, 1), (945, 0.35), (1375, 0.01), (1610, 0.85), (2190, 0.65))


@dataclass(frozen=True)
class CloudKind:
    """What clouds to draw: each field is a range from which each image draws."""

    cover: tuple[float, float]
    """Share of the image under cloud; 1 is a veil without gaps."""
    thickness: tuple[float, float]
    """Typical optical thickness of the cloud in an image; drawn on a logarithmic scale."""
    smoothness: tuple[float, float]
    """How fast the noise's amplitude falls with frequency: 1.2 is ragged, 2.5 is a soft veil."""
    unevenness: tuple[float, float]
    """How uneven a veil is: the standard deviation of the logarithm of its thickness."""
    shift: tuple[float, float]
    """How far the shadow falls from its cloud, in pixels (the direction is drawn too); 0 casts none."""

    def __post_init__(self) -> None:
        for name in ("cover", "thickness", "smoothness", "unevenness", "shift"):
            low, high = getattr(self, name)
            if not 0 <= low <= high or (name == "thickness" and low == 0) or (name == "cover" and high > 1):
                raise ConfigError(f"CloudKind.{name} is a range from low to high, got {(low, high)}")


THIN_VEIL = CloudKind(
    cover=(1.0, 1.0), thickness=(3.0, 12.0), smoothness=(1.8, 2.6), unevenness=(0.0, 0.3), shift=(0.0, 0.0)
)
"""A veil as in RICE1: all the ground shows through, but paler."""
HAZE = replace(THIN_VEIL, thickness=(2.0, 12.0))
"""The same and thinner, to train on."""
BROKEN_VEIL = CloudKind(
    cover=(0.2, 0.9), thickness=(2.0, 12.0), smoothness=(1.6, 2.3), unevenness=(0.0, 0.0), shift=(0.0, 0.0)
)
"""Thin cloud with gaps: the ground shows through the cloud and is untouched in the gaps."""
THICK_CLOUD = CloudKind(
    cover=(0.1, 0.6), thickness=(20.0, 100.0), smoothness=(1.3, 1.8), unevenness=(0.0, 0.0), shift=(8.0, 48.0)
)
"""Broken cloud as in RICE2 and SEN12MS-CR: white cores that hide the ground, soft edges, shadows."""


class Simulated(NamedTuple):
    """An image with cloud, and what was put on it."""

    cloudy: Tensor
    """(C, H, W) in the range of the clear image."""
    thickness: Tensor
    """Optical thickness (H, W); 0 is no cloud."""
    light: Tensor
    """Share of the sunlight that reaches the ground (H, W): 1 in the open, near 0 in deep shadow."""


def simulate_clouds(
    clear: Tensor,
    kind: CloudKind,
    *,
    generator: torch.Generator,
    spec: InputSpec = TRUE_COLOUR,
) -> Simulated:
    """Put cloud and its shadow on a clear image (C, H, W) whose bands are the outputs of `spec`.

    The wavelengths say how bright cloud and sky are in each band, and the spec's span is the value of white.
    """
    nanometres, white = spec.wavelengths, spec.span
    if clear.ndim != 3 or len(clear) != len(nanometres):
        raise ShapeError(
            f"expected one image (C, H, W) with the bands {' '.join(spec.outputs)}, got the shape "
            f"{tuple(clear.shape)}: say which bands it has with spec="
        )
    height, width = clear.shape[1:]
    cover, smoothness, unevenness, shift = (
        _uniform(*limits, generator) for limits in (kind.cover, kind.smoothness, kind.unevenness, kind.shift)
    )
    middle = math.exp(_uniform(math.log(kind.thickness[0]), math.log(kind.thickness[1]), generator))
    angle = _uniform(0, 2 * math.pi, generator)
    down, right = round(shift * math.sin(angle)), round(shift * math.cos(angle))

    # One field, larger by the shift, is seen through two windows: the cloud's, and the shadow's beside it.
    field = _noise(height + abs(down), width + abs(right), smoothness, generator)
    thickness = middle * (torch.exp(unevenness * field) if cover >= 1 else _broken(field, cover))
    above = thickness[max(down, 0) :, max(right, 0) :][:height, :width].to(clear)
    sunward = thickness[max(-down, 0) :, max(-right, 0) :][:height, :width].to(clear)
    light = 1 - _reflection(math.sqrt(2) * sunward) if shift else torch.ones_like(above)  # sun at 45 degrees

    brightness = clear.new_tensor([_at(BRIGHTNESS, nm) for nm in nanometres])[:, None, None]
    sky = clear.new_tensor([_at(SKYLIGHT, nm) for nm in nanometres])[:, None, None]
    reflected = _reflection(above)  # (H, W)
    ground = clear * (sky + (1 - sky) * light)  # (C, H, W)
    seen = white * brightness * reflected + (1 - reflected) ** 2 * ground
    return Simulated(seen.clamp_(0, white), above, light)


def cover(sample: Sample, cloudy: Tensor, spec: InputSpec) -> Sample:
    """Give the sample with these bands (C, H, W) in place of the input's own."""
    inputs = sample["inputs"].clone()
    inputs[spec.optical] = cloudy
    return {**sample, "inputs": inputs}


def _uniform(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _at(table: Sequence[tuple[float, float]], nm: float) -> float:
    """Read a table of (nm, value) at a wavelength: linear between its entries, constant beyond them."""
    for (left, low), (right, high) in pairwise(table):
        if nm <= right:
            return low + (high - low) * max((nm - left) / (right - left), 0.0)
    return table[-1][1]


def _reflection(thickness: Tensor) -> Tensor:
    return (1 - ASYMMETRY) * thickness / (2 + (1 - ASYMMETRY) * thickness)


def _noise(height: int, width: int, smoothness: float, generator: torch.Generator) -> Tensor:
    """Fractal noise (H, W), mean 0, deviation 1: random waves of amplitude 1 / frequency ** smoothness."""
    # Cut from a larger square, because the waves repeat at its sides; above 1024 pixels it is enlarged.
    size = math.ceil(max(height, width, 16) * 1.15 / 32) * 32
    grid = min(size, 1024)
    down = torch.fft.fftfreq(grid, 1 / grid)[:, None]
    across = torch.fft.rfftfreq(grid, 1 / grid)[None, :]
    square = down**2 + across**2
    square[0, 0] = math.inf
    waves = torch.randn(grid, grid // 2 + 1, 2, generator=generator) * square[..., None] ** (-smoothness / 2)
    field = torch.fft.irfft2(torch.view_as_complex(waves), (grid, grid))
    if grid < size:
        field = F.interpolate(field[None, None], (size, size), mode="bicubic", align_corners=False)[0, 0]
    cut: Tensor = field[:height, :width]
    return (cut - cut.mean()) / cut.std().clamp_min(1e-12)


def _broken(field: Tensor, cover: float) -> Tensor:
    """Cloud where the noise is high, nothing elsewhere: thin at the edge, thick inside."""
    some = field.flatten()[:: max(1, field.numel() // 4096)]
    edge = torch.quantile(some, 1 - cover)
    above = (field - edge).clamp_min(0)
    return above.pow(1.5)
