"""The report of an evaluation of images, out of its rows: all numbers, and the tables to read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attcr.data import DataSet
from attcr.evaluate import figures
from attcr.evaluate.protocols import ImageProtocol, Protocol
from attcr.evaluate.rows import COPIED, RESAMPLES, Row, as_markdown, number

CLOUDY_DIFFERENCE = 0.1
"""A pixel is called cloudy when any band of input and reference differ by more, where 1 is the peak."""


def leading(rules: Sequence[Protocol]) -> ImageProtocol | None:
    """Give the protocol whose PSNR images are ordered by: the first one of whole images, if there is one."""
    return next((rule for rule in rules if isinstance(rule, ImageProtocol)), None)


def summarise(
    rows: Sequence[Row], rules: Sequence[Protocol], about: Mapping[str, Any], data: DataSet, part: str
) -> dict[str, Any]:
    """Give what is in `report.json`."""
    methods = list(rows[0]["pixels"])
    bands = rows[0]["size"][0]
    first = leading(rules)
    decibels = (
        [_pooled(list(row["pixels"][methods[0]].values()), bands)["psnr"] for row in rows]
        if first is None
        else first.of(rows, methods[0], "psnr")
    )
    order = sorted(range(len(rows)), key=lambda index: decibels[index])
    shown = {"worst": order[0], "median": order[len(order) // 2], "best": order[-1]}
    report: dict[str, Any] = _finite(
        {
            "subject": methods[0],
            "made with": about,
            "protocols": {rule.name: rule.summarise(rows, data, part) for rule in rules},
            "pixels": {
                method: {
                    kind: _pooled([row["pixels"][method][kind] for row in rows], bands) for kind in ("cloudy", "clear")
                }
                for method in methods
            },
            "shown": {
                title: {"name": rows[index]["name"], "index": index, "psnr": decibels[index]}
                for title, index in shown.items()
            },
        }
    )
    return report


def _pooled(sums: Sequence[Sequence[float]], bands: int) -> dict[str, float | int]:
    pixels = sum(int(entry[0]) for entry in sums)
    if not pixels:
        return {"pixels": 0, "mae": math.nan, "psnr": math.nan}
    absolute, squared = (math.fsum(entry[at] for entry in sums) / (pixels * bands) for at in (1, 2))
    return {"pixels": pixels, "mae": absolute, "psnr": -10 * math.log10(squared) if squared else math.inf}


def _finite(content: Any) -> Any:
    """Give JSON that any reader takes: NaN and infinity become null."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def markdown(report: Mapping[str, Any], rules: Sequence[Protocol]) -> str:
    """Give what is in `report.md`."""
    subject, made, first = report["subject"], report["made with"], leading(rules)
    data = made["data"]
    text = [
        f"# {subject} on {data['name']} {data['part']}, {data['images']} images",
        "",
        "Each table is of one protocol; numbers of two protocols cannot be compared. Means are over images, with a "
        f"bootstrap 95 % interval ({RESAMPLES} resamples of images, seed 0).",
    ]
    for rule in rules:
        text += ["", f"## Protocol {rule.name}", "", *rule.table(report["protocols"][rule.name])]
    if first:
        text += _pixel_table(report)
    order = f"PSNR under {first.name}" if first else "PSNR of all pixels as they are"
    text += [
        "",
        "## Images",
        "",
        f"Worst, median and best by {order}; the error map ends at {figures.WORST_SHOWN:g}.",
        "",
        "![panels](figures/panels.png)",
        "",
        *(("![gain](figures/gain.png)", "") if subject != COPIED and first else ()),
        "## What made it",
        "",
        f"- data: {data['name']} {data['part']}, split sha256 `{data['split sha256']}`",
        f"- protocols: {', '.join(made['protocols'])}",
    ]
    for name, source in made["methods"].items():
        if source:
            file = source.get("weights") or source.get("predictions") or "a predictor"
            text.append(f"- {name}: `{file}`, sha256 `{source.get('sha256') or source.get('weights_sha256')}`")
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return "\n".join([*text, f"- versions: {versions}", ""])


def _pixel_table(report: Mapping[str, Any]) -> list[str]:
    body = [
        [method, *(cell for kind in kinds.values() for cell in (number(kind["mae"], 4), number(kind["psnr"], 2)))]
        for method, kinds in report["pixels"].items()
    ]
    pixels = report["pixels"][report["subject"]]
    share = pixels["cloudy"]["pixels"] / (pixels["cloudy"]["pixels"] + pixels["clear"]["pixels"])
    return [
        "",
        "## Cloudy and clear pixels",
        "",
        "A pixel is cloudy when any band of input and reference differ by more than "
        f"{CLOUDY_DIFFERENCE:g} (1 is the peak). Errors of all pixels of a kind together, prediction clamped to [0, 1];"
        " no protocol scores parts of images.",
        "",
        *as_markdown(["method", "cloudy: MAE ↓", "PSNR ↑ (dB)", "clear: MAE ↓", "PSNR ↑ (dB)"], body),
        "",
        f"{100 * share:.1f} % of all pixels are cloudy.",
    ]
