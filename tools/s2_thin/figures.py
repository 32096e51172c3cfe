"""Draw whether the expected error can be believed, and whether simulated cloud has the spectrum of real cloud.

    python -m tools.s2_thin.figures s2-thin --data DATA --root ../shared/data/s2 --out docs/figures

Writes NAME-reliability.png and NAME-spectra.png, NAME being that of the weights, and prints the numbers in them. Two
minutes on a free core.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import attcr
from attcr.bands.sensors import S2_COMMON, S2_WAVELENGTHS
from attcr.data.dates import BRIGHTER, CLASS_NUMBERS, MUCH_BRIGHTER, ONE_REFLECTANCE
from attcr.evaluate.figures import new_figure, save_figure

from .clear import held_out_l1c
from .layers import KINDS, Draw, simulate
from .measure import Array, Certainty, Restorer
from .real import open_set, restorations
from .samples import ALL, TEN

COLOURS = [S2_COMMON.index(name) for name in ("blue", "green", "red")]
SHARES = np.linspace(0, 0.6, 13)
WANTED = 0.68
"""Share of the errors that are to lie within the expected one."""
DRAWS = 150
"""Simulated clouds behind each spectrum."""


def simulated(restore: Restorer, data: Path) -> Certainty:
    """Give what is known of held-out places under every kind of cloud but the thick, 13 and ten bands in turn."""
    certainty, draw = Certainty(), Draw(torch.Generator().manual_seed(12))
    kinds = [kind for kind in KINDS if kind not in ("clear", "thick")]
    for at, place in enumerate(held_out_l1c(data)[:24]):
        clear, some = place[:, 48:192, 48:192], list((ALL, TEN)[at % 2])
        cloudy, _ = simulate(clear, draw, surface=False, pixel=1.0, kinds={kinds[at % len(kinds)]: 1})
        out, scale = restore(cloudy.numpy(), some, surface=False)
        error = np.abs(out - clear.numpy())[some]
        certainty.add(error.reshape(len(some), -1), scale[some].reshape(len(some), -1))
    return certainty


def real(restore: Restorer, root: Path) -> dict[str, Certainty]:
    """Give what is known of the real pairs without thick cloud; all but the haze are fitted first, as in two-dates."""
    known = {"haze over Rondonia": Certainty(), "CloudSEN12": Certainty(), "SEN12MS-CR": Certainty()}
    for title, name in zip(known, ("haze-20lmr", "cloudsen12", "sen12mscr-pairs"), strict=True):
        for pair in restorations(restore, open_set(root, name)):
            truth = pair.clear if name == "haze-20lmr" else pair.fitted()  # no pixel of the haze is clear
            if truth is None:
                continue
            through = pair.scored & (pair.classes != CLASS_NUMBERS["thick"])
            known[title].add(np.abs(pair.out - truth)[:, through], pair.scale[:, through])
    return known


def draw_reliability(path: Path, known: dict[str, Certainty], title: str) -> None:
    """Draw expected against real error, the share within it, and the error without the least certain pixels."""
    figure = new_figure(13, 4.2)
    curve, share, left = figure.subplots(1, 3)
    curve.plot([1e-3, 0.3], [1e-3, 0.3], color="grey", linewidth=1)
    for name, certainty in known.items():
        expected, found = certainty.curve()
        curve.plot(expected, found, marker=".", label=name)
        left.plot(100 * SHARES, certainty.without(SHARES.tolist()), marker=".", label=name)
    curve.set(xscale="log", yscale="log", xlabel="expected error (reflectance)", ylabel="68 % of the errors are below")
    curve.set_title(title, fontsize=10)
    curve.legend(fontsize=8)
    share.axvspan(60, 76, color="0.9")
    share.axvline(100 * WANTED, color="grey", linewidth=1)
    share.barh(list(known), [100 * certainty.figures()["within"] for certainty in known.values()], height=0.5)
    share.set(xlim=(0, 100), xlabel="errors within the expected one (%)")
    share.invert_yaxis()
    left.axvline(20, color="grey", linewidth=1)
    left.axhline(0.65, color="grey", linewidth=1)
    left.set(xlabel="least certain pixels left out (%)", ylabel="mean error, of that of all pixels", ylim=(0, 1.2))
    save_figure(figure, path)


def thin_spectrum(cloudy: Array, clear: Array) -> Array | None:
    """Give what thin cloud adds to (13, H, W), as a share of what it adds to blue, green and red; None without it."""
    added = cloudy - clear
    brighter = added[COLOURS].mean(0)
    thin = (brighter > BRIGHTER) & (brighter < MUCH_BRIGHTER)
    if thin.sum() < 200:
        return None
    spectrum = added[:, thin].mean(1)
    return np.asarray(spectrum / spectrum[COLOURS].mean())


def spectra(root: Path, name: str, kinds: dict[str, float], *, surface: bool) -> tuple[dict[str, Array], Array]:
    """Give the spectra of real thin cloud of a set by pair, and (N, 13) those simulated on its clear images."""
    pairs, draw = open_set(root, name), Draw(torch.Generator().manual_seed(13))
    have, found, drawn = pairs.spec.optical, {}, []
    for at in range(len(pairs)):
        sample = pairs[at]
        clear = np.zeros((len(ALL), *sample["clear"].shape[1:]), np.float32)
        clear[have] = sample["clear"].numpy() / ONE_REFLECTANCE
        spectrum = thin_spectrum(sample["inputs"][: len(ALL)].numpy() / ONE_REFLECTANCE, clear)
        if spectrum is not None:
            found[sample["name"]] = spectrum
        ground = torch.from_numpy(clear[:, 96:160, 96:160])
        for _ in range(DRAWS // len(pairs)):
            cloudy, _ = simulate(ground, draw, surface=surface, pixel=pairs.spec.gsd[0] / 10, kinds=kinds)
            spectrum = thin_spectrum(cloudy.numpy(), ground.numpy())
            if spectrum is not None:
                drawn.append(spectrum)
    return found, np.stack(drawn)


def draw_spectra(path: Path, root: Path) -> None:
    """Draw what real and simulated thin cloud adds in each band, as a share of what it adds to blue, green and red."""
    figure = new_figure(13, 4.2)
    sets = (
        ("haze over Rondonia, L2A", "haze-20lmr", {"haze": 1.0}, True, TEN),
        ("thin cloud of SEN12MS-CR, L1C", "sen12mscr-pairs", {"veil": 1.0, "broken": 1.0}, False, ALL),
    )
    for axis, (title, name, kinds, surface, have) in zip(figure.subplots(1, len(sets)), sets, strict=True):
        found, drawn = spectra(root, name, kinds, surface=surface)
        some, nanometres = list(have), [S2_WAVELENGTHS[band] for band in have]
        low, first, middle, last, high = np.quantile(drawn[:, some], [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
        axis.fill_between(nanometres, low, high, color="0.9", label="simulated, 90 %")
        axis.fill_between(nanometres, first, last, color="0.75", label="simulated, half")
        axis.plot(nanometres, middle, color="0.4", label="simulated, median")
        for pair, spectrum in found.items():
            axis.plot(nanometres, spectrum[some], marker=".", linewidth=1, label=f"real: {pair}")
        axis.axhline(0, color="black", linewidth=0.5)
        axis.set(xscale="log", xlabel="nanometres", ylabel="added, of what is added to B02, B03, B04", ylim=(-1.2, 2.8))
        axis.set_xticks(nanometres, [str(round(nm)) for nm in nanometres], rotation=90, fontsize=7)
        axis.minorticks_off()
        axis.set_title(title, fontsize=10)
        axis.legend(fontsize=6, loc="lower left", ncols=2)
        within = [float(((low <= s[some]) & (s[some] <= high)).mean()) for s in found.values()]
        print(f"spectra of {name}: bands within 90 % of the simulated, by pair:", " ".join(f"{x:.0%}" for x in within))
    save_figure(figure, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a published name, or a file")
    parser.add_argument("--data", type=Path, required=True, help="folder of df.npz")
    parser.add_argument("--root", type=Path, required=True, help="folder of the real pairs and series")
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    args = parser.parse_args(arguments)
    restore = Restorer(attcr.open_predictor(args.weights))
    name = Path(args.weights).stem
    draw_spectra(args.out / f"{name}-spectra.png", args.root)
    known = {"simulated, held out": simulated(restore, args.data), **real(restore, args.root)}
    for title, certainty in known.items():
        print(f"{title:25}", "  ".join(f"{key} {value:.3f}" for key, value in certainty.figures().items()))
    draw_reliability(args.out / f"{name}-reliability.png", known, name)


if __name__ == "__main__":
    main()
