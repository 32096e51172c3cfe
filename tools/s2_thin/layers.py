"""Haze, thin and thick cloud, and shadow, put on clear Sentinel-2 pixels of up to 13 bands.

A layer has the optical thickness t(nm) = t(550) (nm / 550) ** -exponent. It reflects R = 0.15 t / (2 + 0.15 t) of the
light (two-stream) and is seen over ground of reflectance rho as brightness * R + (1 - R)^power * rho, the power being 2
or near it. The exponent is 0 for water cloud and cirrus, 1 to 2 for haze and smoke. The ground's light in shadow is
sky + (1 - sky) * light; what the air itself scatters into the sensor (most at the top of the atmosphere) is not
shadowed.

Images are (13, H, W) in reflectance, the bands in the order of `attcr.bands.sensors.S2_L1C_BANDS`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attcr.bands.sensors import S2_L1C_BANDS, S2_WAVELENGTHS
from attcr.data.simulate import BRIGHTNESS, SKYLIGHT, _at, _broken, _noise, _reflection, _uniform

BANDS = len(S2_L1C_BANDS)
VAPOUR, CIRRUS = S2_L1C_BANDS.index("B09"), S2_L1C_BANDS.index("B10")
NANOMETRES = torch.tensor(S2_WAVELENGTHS)
SKY = torch.tensor([_at(SKYLIGHT, nm) for nm in S2_WAVELENGTHS])
"""Share of the ground's light that comes from the sky."""

# Brightness of thick cloud relative to 865 nm: as read off SEN12MS-CR, of low water cloud, and of high ice cloud
# (cirrus), which lies above the vapour (945, 1375) and absorbs more at 1610 and 2190.
FITTED = torch.tensor([_at(BRIGHTNESS, nm) for nm in S2_WAVELENGTHS])
WATER = torch.tensor([0.86, 0.90, 0.88, 0.92, 0.90, 0.95, 0.98, 0.96, 1.00, 0.35, 0.008, 0.82, 0.64])
ICE = torch.tensor([0.90, 0.92, 0.92, 0.94, 0.94, 0.96, 0.98, 0.98, 1.00, 0.80, 0.60, 0.62, 0.52])

AIR = torch.tensor([0.092, 0.062, 0.034, 0.017, 0.013, 0.011, 0.008, 0.006, 0.005, 0.003, 0.0, 0.0, 0.0])
"""Path reflectance of clear air (Rayleigh), for a middling sun and height."""
AIR_LEFT = 0.15
"""Share of it that is still in surface reflectance."""

# Reflectance of dry sand and of salt or bright roofs, at the surface; nothing is known of the cirrus band.
SAND = torch.tensor([0.15, 0.18, 0.25, 0.34, 0.36, 0.38, 0.40, 0.41, 0.42, 0.42, 0.0, 0.52, 0.45])
SALT = torch.tensor([0.36, 0.40, 0.44, 0.48, 0.49, 0.50, 0.50, 0.50, 0.50, 0.48, 0.0, 0.42, 0.33])

# Reflectance of black water, of lava or burnt ground, and of muddy water, at the surface. The first two are dark as a
# shadow, but not of its colour; muddy water is bright and even, as haze is.
BLACK_WATER = torch.tensor([0.012, 0.014, 0.018, 0.020, 0.016, 0.013, 0.012, 0.011, 0.010, 0.008, 0.0, 0.006, 0.005])
LAVA = torch.tensor([0.030, 0.035, 0.040, 0.045, 0.050, 0.050, 0.055, 0.060, 0.060, 0.060, 0.0, 0.080, 0.070])
MUDDY_WATER = torch.tensor([0.06, 0.09, 0.13, 0.145, 0.145, 0.105, 0.11, 0.09, 0.08, 0.05, 0.0, 0.015, 0.01])

_SECONDS = torch.tensor([2.314, 0.0, 0.527, 1.005, 1.269, 1.525, 1.790, 0.264, 2.055, 2.586, 0.851, 1.468, 2.085])
DELAY = _SECONDS - _SECONDS.mean()
"""Seconds after their mean at which each band sees the same ground: it makes high cloud lie aside between bands."""
PARALLAX_A_KM = 0.89
"""By how many pixels of 10 m a cloud moves in a second, for each kilometre of its height."""
MOST_PARALLAX, MOST_ASIDE = 8.0, 96.0
"""Pixels a second, and pixels, beyond which nothing is drawn."""

KINDS: Mapping[str, float] = {
    "clear": 0.16, "haze": 0.16, "veil": 0.24, "broken": 0.22, "thick": 0.08, "shadow": 0.14,
}  # fmt: skip
"""What may be put on an image, and how often it is."""


class Draw:
    """Random numbers of one generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Give a number of a range, all equally likely."""
        return _uniform(low, high, self.generator)

    def log(self, low: float, high: float) -> float:
        """Give a number of a range, all orders of magnitude equally likely."""
        return math.exp(self.uniform(math.log(low), math.log(high)))

    def chance(self, share: float) -> bool:
        """Say yes in this share of the cases."""
        return self.uniform() < share

    def integer(self, below: int) -> int:
        """Give one of 0 to below - 1."""
        return int(torch.randint(below, (), generator=self.generator))

    def choice(self, weights: Mapping[str, float]) -> str:
        """Give one of the names, as often as their weights say."""
        at = self.uniform(0, sum(weights.values()))
        for name, weight in weights.items():
            at -= weight
            if at <= 0:
                return name
        return list(weights)[-1]

    def each_band(self, deviation: float) -> Tensor:
        """Give a factor for each band, about 1."""
        return 1 + deviation * torch.randn(BANDS, generator=self.generator)


@dataclass(frozen=True)
class Layer:
    """One layer of cloud or haze."""

    cover: float
    """Share of the image under it; 1 is a veil without gaps."""
    thickness: float
    """Optical, at 550 nm, middling for the image."""
    smoothness: float
    """Slope of the noise's amplitude over frequency."""
    unevenness: float
    """Deviation of the logarithm of a veil's thickness."""
    exponent: float
    """By which the thickness falls with wavelength."""
    brightness: Tensor
    """(13,): reflectance where it is thick."""
    shadow: float = -1.0
    """How far aside its shadow falls, in pixels; below 0 it casts none."""
    parallax: float = 0.0
    """Pixels a second by which it moves between bands, downwards."""
    visible: bool = True
    """Whether it is in the image itself, or only its shadow."""
    power: float = 2.0
    """Of the light that passes it, how the ground's share falls: cirrus scatters forward, other cloud does not."""


def draw_layer(kind: str, draw: Draw, pixel: float) -> Layer:
    """Give a layer of one kind; `pixel` is the size of a pixel in units of 10 m."""
    gain = draw.uniform(0.65, 1.05) if draw.chance(0.45) else 1.0
    power = draw.uniform(1.5, 2.4) if draw.chance(0.3) else 2.0
    if kind == "haze":  # over the whole view, bluish, hardly uneven, below what the cirrus band sees
        spectrum = WATER**0.5 * draw.uniform(0.65, 1.0)
        spectrum[CIRRUS] = 0.0
        thickness, smoothness, unevenness = draw.log(0.25, 6.0), draw.uniform(1.8, 2.6), draw.uniform(0, 0.25)
        return Layer(1.0, thickness, smoothness, unevenness, draw.uniform(0.7, 2.0), spectrum)
    high = draw.uniform() if draw.chance(0.5) else 0.0  # 0 low water cloud, 1 high ice cloud
    ice = high**1.5
    spectrum = (FITTED if draw.chance(0.7) else WATER) ** (1 - ice) * ICE**ice * gain
    if draw.chance(0.5):
        spectrum = spectrum * draw.each_band(0.03)
    exponent = 0.0 if high > 0.3 else max(0.0, draw.uniform(-0.8, 1.4))  # ice crystals are large: no colour
    kilometres = draw.uniform(0.5, 3.0) + 9 * high
    parallax = 0.0
    if draw.chance(0.5 if high else 0.2):
        parallax = PARALLAX_A_KM * kilometres / pixel * (1 if draw.chance(0.5) else -1)
    aside = draw.log(4, 96)
    if kind == "veil":
        thickness, smoothness, unevenness = draw.log(0.4, 12.0), draw.uniform(1.8, 2.6), draw.uniform(0, 0.35)
        return Layer(1.0, thickness, smoothness, unevenness, exponent, spectrum, parallax=parallax, power=power)
    if kind == "broken":
        shadow = aside if draw.chance(0.35) else -1.0
        cover, thickness, smoothness = draw.uniform(0.15, 0.9), draw.log(0.6, 12.0), draw.uniform(1.4, 2.3)
        return Layer(cover, thickness, smoothness, 0.0, exponent, spectrum, shadow, parallax, power=power)
    shadow = aside if draw.chance(0.85) else -1.0
    cover = draw.uniform(0.05, 0.5)
    if kind == "thick":
        thickness, smoothness = draw.log(12.0, 100.0), draw.uniform(1.3, 1.9)
        return Layer(cover, thickness, smoothness, 0.0, 0.0, spectrum, shadow, parallax / 2)
    # A shadow whose cloud is out of view. Thick cloud's cover and chance of a shadow were drawn and are not used: the
    # order of the draws is the training's.
    cover, thickness, smoothness = draw.uniform(0.1, 0.6), draw.log(12.0, 100.0), draw.uniform(1.3, 2.0)
    return Layer(cover, thickness, smoothness, 0.0, 0.0, spectrum, aside, visible=False)


def displacements(parallax: float) -> list[int]:
    """Give by how many rows each band sees a layer of this parallax displaced."""
    rows: list[int] = (DELAY * min(max(parallax, -MOST_PARALLAX), MOST_PARALLAX)).round().int().tolist()
    return rows


def apply_layer(clear: Tensor, layer: Layer, draw: Draw, air: Tensor) -> Tensor:
    """Give clear (13, H, W) as it is seen through the layer; `air` (13,) is the air's own light in it."""
    _, height, width = clear.shape
    angle = draw.uniform(0, 2 * math.pi)
    far = min(max(layer.shadow, 0.0), MOST_ASIDE)
    down, right = round(far * math.sin(angle)), round(far * math.cos(angle))
    shifts = displacements(layer.parallax)
    margin = max(map(abs, shifts))

    # One field, larger by the shifts, seen through several windows: the cloud's in each band, and the shadow's.
    field = _noise(height + abs(down) + 2 * margin, width + abs(right), layer.smoothness, draw.generator)
    uneven = torch.exp(layer.unevenness * field) if layer.cover >= 1 else _broken(field, layer.cover)
    thickness = layer.thickness * uneven

    def window(top: int, left: int) -> Tensor:
        return thickness[top : top + height, left : left + width]

    ground = clear
    if layer.shadow >= 0:
        ground = _shadowed(clear, window(margin + max(-down, 0), max(-right, 0)), draw, air)
    if not layer.visible:
        return ground
    top, left = margin + max(down, 0), max(right, 0)
    above = torch.stack([window(top + shift, left) for shift in shifts]) if margin else window(top, left)[None]
    spectral = (NANOMETRES / 550) ** -layer.exponent
    reflected = _reflection(above * spectral[:, None, None])  # (13, H, W)
    return layer.brightness[:, None, None] * reflected + (1 - reflected) ** layer.power * ground


def _shadowed(clear: Tensor, sunward: Tensor, draw: Draw, air: Tensor) -> Tensor:
    """Give clear (13, H, W) under what lies between it and the sun, of optical thickness (H, W)."""
    light = 1 - _reflection(math.sqrt(2) * sunward) * draw.uniform(0.75, 1.05)  # sun at 45 degrees
    soft = draw.integer(3)  # penumbra
    if soft:
        light = F.avg_pool2d(F.pad(light[None, None], (soft,) * 4, mode="replicate"), 2 * soft + 1, 1)[0, 0]
    sky = (SKY * draw.uniform(0.7, 2.2)).clamp(max=0.85)[:, None, None]
    path = (air * draw.uniform(0.7, 1.0))[:, None, None].minimum(clear)
    return path + (clear - path) * (sky + (1 - sky) * light.clamp(0, 1))


def simulate(
    clear: Tensor, draw: Draw, *, surface: bool, pixel: float, kinds: Mapping[str, float] = KINDS
) -> tuple[Tensor, str]:
    """Give clear (13, H, W) with one of `kinds` on it, and its name; `pixel` is in units of 10 m."""
    kind = draw.choice(kinds)
    if kind == "clear":
        return clear.clone(), kind
    air = AIR_LEFT * AIR if surface else AIR
    seen = clear
    if kind in ("broken", "thick") and draw.chance(0.2):
        haze = draw_layer("haze", draw, pixel)
        seen = apply_layer(seen, replace(haze, thickness=draw.log(0.2, 2.0)), draw, air)
    if kind == "broken" and draw.chance(0.25):
        seen = apply_layer(seen, draw_layer("thick", draw, pixel), draw, air)
    seen = apply_layer(seen, draw_layer(kind, draw, pixel), draw, air)
    return seen.clamp(0, 1.6), kind


def change_ground(clear: Tensor, draw: Draw, *, surface: bool) -> tuple[Tensor, bool]:
    """Give another ground of the same texture, and whether it is one that looks like cloud or shadow.

    It is brighter or darker, tilted in colour; or turned to sand and salt, or to water, lava or burnt ground.
    """
    tilt = torch.log(NANOMETRES / 850) / math.log(850 / 443)
    gain = draw.uniform(0.75, 1.3) * (1 + draw.uniform(-0.12, 0.12) * tilt)
    clear = clear * gain[:, None, None]
    kind = draw.choice({"same": 0.67, "sand": 0.17, "patches": 0.16})
    if kind == "same":
        return clear, False
    return (_sand if kind == "sand" else _patches)(clear, draw, surface=surface), True


def _texture(clear: Tensor) -> Tensor:
    """Give how much brighter than the mean each pixel is (H, W), as a share."""
    grey = clear[[1, 2, 3, 7, 11]]
    grey = grey[grey.amax((1, 2)) > 0].mean(0)  # of the bands that are there
    return ((grey - grey.mean()) / grey.mean().clamp_min(0.02)).clamp(-1, 1.5)


def _patches(clear: Tensor, draw: Draw, *, surface: bool) -> Tensor:
    """Give ground with water, lava or burnt ground in places, of sharp outline, or all over."""
    kind = draw.choice({"black": 0.45, "muddy": 0.25, "lava": 0.3})
    gains = {"black": draw.log(0.3, 2.5), "muddy": draw.log(0.3, 1.4), "lava": draw.uniform(0.4, 1.6)}
    spectra = {"black": BLACK_WATER, "muddy": MUDDY_WATER, "lava": LAVA}
    spectrum = spectra[kind] * gains[kind] * draw.each_band(0.12)
    if not surface:
        spectrum[VAPOUR] *= draw.uniform(0.3, 0.6)
        spectrum = through_air(spectrum)
    ground = spectrum[:, None, None] * (1 + _texture(clear) * draw.uniform(0, 0.35 if kind == "lava" else 0.1))
    ground[CIRRUS] = clear[CIRRUS]
    if draw.chance(0.35):
        return ground
    field = _noise(clear.shape[1], clear.shape[2], draw.uniform(1.4, 2.4), draw.generator)
    share = ((field - draw.uniform(-0.8, 0.8)) / draw.log(0.02, 0.3)).clamp(0, 1)  # wide at a gentle shore only
    return share * ground + (1 - share) * clear


def _sand(clear: Tensor, draw: Draw, *, surface: bool) -> Tensor:
    """Give ground turned to sand or salt."""
    mix = 1 - 0.6 * draw.uniform() ** 2
    spectrum = (SAND * mix + SALT * (1 - mix)) * draw.uniform(0.5, 1.35) * draw.each_band(0.05)
    if not surface:
        spectrum[VAPOUR] *= draw.uniform(0.3, 0.6)
        spectrum = through_air(spectrum)
    texture = _texture(clear) * draw.uniform(0.1, 0.5)
    share = draw.uniform(0.4, 1.0)
    sand = spectrum[:, None, None] * (1 + texture)
    sand[CIRRUS] = clear[CIRRUS]
    return share * sand + (1 - share) * clear


def through_air(spectrum: Tensor) -> Tensor:
    """Give a surface's reflectance (13,) as it is at the top of the atmosphere."""
    return spectrum * (1 - 2 * AIR) + 0.8 * AIR
