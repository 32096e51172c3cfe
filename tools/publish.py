"""Put a trained network into the package: its file, its line in the table, model card and STAC item.

    python tools/publish.py half RUN/weights.safetensors NAME.safetensors [CALIBRATION [OTHER SHARE]]
    attcr evaluate --weights NAME.safetensors ... --out REPORT
    python tools/publish.py NAME.safetensors REPORT...

A report is a folder of attcr evaluate, or FOLDER=what its images are, or a .json of {"sha256": ..., "scores": [...]};
only reports of the very file are taken. What the card says beside the figures is in WORDS below, whose order is that in
which restore tries the weights.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pystac
import torch
from pystac.extensions.eo import SCHEMA_URI as EO_SCHEMA
from pystac.extensions.file import SCHEMA_URI as FILE_SCHEMA
from pystac.extensions.mlm import (
    AssetGeneralMLMExtension,
    Hyperparameters,
    InputStructure,
    MLMExtension,
    ModelInput,
    ModelOutput,
    ResultStructure,
    TaskType,
    ValueScaling,
    ValueScalingType,
)
from pystac.extensions.raster import DataType

from attcr.files import sha256
from attcr.weights import Published, find_weights, load_model, published, read_header, save_model

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "attcr" / "weights" / "published"
CARDS = ROOT / "docs" / "reference" / "models"
RESULTS_PAGE = {"s2-dates": "dates.md"}
"""The page of results of weights that have none of their own name."""


@dataclass(frozen=True)
class Words:
    """What no figure says."""

    purpose: str
    sensor: str
    data: str
    limits: tuple[str, ...]


WORDS = {
    "s2-thin": Words(
        "haze, thin cloud, cirrus and cloud edges in all bands of Sentinel-2, and of Landsat by wavelength",
        "Sentinel-2 L1C and L2A, Landsat Collection 2, any of their bands from 10 to 60 m",
        "simulated haze, thin, broken and thick cloud and shadow on clear Sentinel-2: 219 places of L1C with 13 bands, "
        "3,780 patches of L2A with 12, five dates of one L2A tile with 7; every fifth cell of 2 degrees held out; no "
        "real cloudy image (tools/s2_thin/README.md)",
        (
            "thick cloud, which hides the ground: it is left bright or smeared; take another date",
            "cloud shadow as if it were never there: about half of its error stays, and it comes out smooth",
            "bright sand and salt without a mask: taken for haze, they are darkened by 0.020 of reflectance on average",
            "muddy rivers under haze: their water is darkened (docs/results/s2-thin.md)",
            "thin cloud over arid land: there it gains little or nothing, and the error of NDVI grew from 0.014 to "
            "0.021 on 8 places (docs/results/s2-thin.md)",
            "measuring surfaces under cloud: reflectance there is estimated, with its expected error beside it",
        ),
    ),
    "rgb-thin": Words(
        "thin cloud and haze on true-colour 8-bit RGB",
        "8-bit RGB, true colour: pictures, Sentinel-2 and Landsat renderings",
        "simulated thin cloud on 125 clear Sentinel-2 patches of 10 tiles, T22MCT and T50JML held out; no RICE image, "
        "but how thick the veils and how varied the tones are was set after looking at the 100 RICE1 pairs "
        "(docs/reference/data.md, docs/results/rgb-thin.md)",
        (
            "thick cloud, which hides the ground: it will be left or smeared",
            "cloud shadow, which stays: no neighbourhood becomes brighter in every band; smoke, snow and ice, which it "
            "has not seen",
            "even haze over even ground, such as open sea: it stays, because nothing tells it from the ground's own "
            "colour",
            "measuring surfaces under cloud: reflectance there is estimated, not observed",
        ),
    ),
    "rice2-small": Words(
        "thick and thin cloud on 8-bit RGB as in RICE2 (Landsat 8, false colour)",
        "8-bit RGB; trained on false-colour Landsat 8 at 30 m",
        "RICE2 train list without near-duplicates of test (shipped split, see docs/reference/data.md)",
        (
            "measuring surfaces: what is under thick cloud is plausible, not observed",
            "true-colour scenes: it was trained on false colour and shifts their tones",
            "finding what changed between dates: the cloudy and the clear image of a pair are days apart",
        ),
    ),
    "s2-dates": Words(
        "correcting other dates of a place, in the scene's tones, inside gaps; restore uses it by itself where it has "
        "references and it helps on the scene",
        "Sentinel-2 L1C and L2A, Landsat Collection 2, any of their bands but cirrus",
        "real pairs of dates (two tiles of Rondonia, 158 pairs of Landsat patches, RICE2) and simulated change on "
        "clear Sentinel-2, under drawn gaps; 20LMR, ROI 146 and CloudSEN12 held out (tools/dates_net/README.md)",
        (
            "restoring a scene without other dates: it sees none of the scene's own cloud",
            "scenes of which less than a tenth is clear: it is not used there",
            "ground on which dates differ by noise alone: it smooths",
            "its own expected error, which is not calibrated: restore reports that of the self-check",
        ),
    ),
}


def half(weights: str, target: str, calibration: str = "1", other: str = "", share: str = "0") -> None:
    """Save weights as float16, with what they tell of themselves, or their mean with this share of other weights.

    The calibration is a factor of the expected error.
    """
    model, header = load_model(weights), read_header(weights)
    provenance = dict(header.provenance)
    if other:
        theirs = load_model(other).state_dict()
        state = {
            name: torch.lerp(value, theirs[name].float(), float(share)) for name, value in model.state_dict().items()
        }
        model.load_state_dict(state)
        provenance |= {"mean_with": sha256(find_weights(other)), "share": float(share)}
    if not all(value.isfinite().all() for value in model.half().state_dict().values()):
        sys.exit(f"{weights}: not all of them are numbers in float16; train on from an earlier checkpoint")
    spec = replace(header.spec, spread_factor=header.spec.spread_factor * float(calibration))
    save_model(model, target, spec=spec, provenance=provenance)


def publish(weights: str, reports: list[str]) -> None:
    """Publish one network."""
    name = Path(weights).stem
    words, header = WORDS[name], read_header(weights)
    provenance = dict(header.provenance)
    digest = sha256(weights)
    read = []
    scores: list[dict[str, Any]] = []
    for report in reports:
        if report.endswith(".json"):
            told = json.loads(Path(report).read_text())
            if told["sha256"] != digest:
                sys.exit(f"{report} is of other weights than {weights}")
            scores += told["scores"]
            continue
        folder, _, images = report.partition("=")
        made = json.loads(Path(folder, "report.json").read_text())
        if made["made with"]["methods"][made["subject"]]["sha256"] != digest:
            sys.exit(f"{folder} is of other weights than {weights}")
        read.append({"images": images, **made})
    entry: dict[str, Any] = {
        "sha256": digest,
        "bytes": Path(weights).stat().st_size,
        "network": header.network,
        "config": header.config,
        "purpose": words.purpose,
        "sensor": words.sensor,
        "data": words.data,
        "scores": [*scores, *(score for report in read for score in _scores(report))],
        "training": provenance.get("training") or _training(provenance),
        "limits": words.limits,
        "licence": "Apache-2.0",
        "commit": _git("rev-parse", "HEAD"),
    }
    shutil.copyfile(weights, FOLDER / f"{name}.safetensors")
    path = FOLDER / "table.json"
    table = {**json.loads(path.read_text()), name: entry}
    path.write_text(json.dumps({key: table[key] for key in WORDS if key in table}, indent=2) + "\n")
    published.cache_clear()
    CARDS.mkdir(exist_ok=True)
    shipped = published()[name]
    (CARDS / f"{name}.md").write_text(card(shipped))
    (CARDS / f"{name}.json").write_text(json.dumps(_item(shipped).to_dict(), indent=2) + "\n")


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def _training(provenance: dict[str, Any]) -> str:
    if "recipe" in provenance:
        began = Path(provenance["start"]).stem
        other = provenance.get("mean_with")
        mean = f", mean with {provenance.get('share', 0.5):.0%} of {other[:8]}" if other else ""
        hours = f"{provenance['hours']} h on one or two CPU cores"
        return f"{provenance['recipe']}, {provenance['steps']} steps from {began}, {hours}{mean}"
    crop = provenance["crop"]
    crops = (
        ", ".join(f"{size} px from step {step} on" for step, size in crop.items())
        if isinstance(crop, dict)
        else f"{crop} px"
    )
    if provenance.get("first_steps"):
        crops = f"{provenance['first_steps']} of {provenance['first_crop']} px, the rest of {crops}"
    shrinks = [shrink for shrink in provenance.get("shrinks", [1]) if shrink > 1]
    smaller = f", at full size or averaged down by {', '.join(map(str, shrinks))}" if shrinks else ""
    batch, loss = provenance["batch"], provenance["loss"]
    batch = " or ".join(map(str, batch.values())) if isinstance(batch, dict) else batch
    loss = "L1 and the likelihood of the expected error" if isinstance(loss, dict) else loss
    other = provenance.get("mean_with")
    mean = f", mean with {provenance['share']:.0%} of {other[:8]}" if other else ""
    started = f"from {Path(provenance['start_from']).stem}, " if provenance.get("start_from") else ""
    return (
        f"{started}{provenance['steps']} steps of {batch} crops, {crops}{smaller}, "
        f"{loss}, {provenance['precision']}, 2 CPU cores{mean}"
    )


def _scores(report: dict[str, Any]) -> list[dict[str, Any]]:
    """PSNR of the report's subject under each of its protocols."""
    data, scores = report["made with"]["data"], []
    for protocol, result in report["protocols"].items():
        methods = result["methods"]
        psnr, copied = methods[report["subject"]]["psnr"], methods["input copied"]["psnr"]
        scores.append(
            {
                "benchmark": report["images"] or f"{data['name']} {data['part']}, {data['images']} images",
                "protocol": protocol,
                "metric": "PSNR",
                "value": round(psnr["mean"], 4),
                "low": round(psnr["low"], 4),
                "high": round(psnr["high"], 4),
                "input_copied": round(copied["mean"], 4),
            }
        )
    return scores


def card(entry: Published) -> str:
    """The model card: what the network is for, what it is not for, and its scores as published."""
    page = RESULTS_PAGE.get(entry.name, f"{entry.name}.md")
    lines = [
        f"# {entry.name}",
        "",
        f"For {entry.purpose}. {entry.sensor}.",
        "",
        "```python",
        "import attcr",
        "",
        f'model = attcr.load_model("{entry.name}")  # in the package, works offline',
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| trained on | {entry.data} |",
        f"| network | {entry.network}, dim {entry.config['dim']}; {entry.training} |",
        f"| takes | {', '.join(slot.name for slot in entry.spec.bands)}; {', '.join(entry.spec.products)} |",
        f"| removes | {', '.join(entry.spec.removes)} |",
        f"| file | {entry.bytes:,} bytes, float16, {entry.licence}, sha256 `{entry.sha256}` |",
        "",
        "## Scores",
        "",
        "| images | protocol | score, 95 % interval |",
        "|---|---|---|",
    ]
    lines += [f"| {s.benchmark} | {s.protocol} | {s} |" for s in entry.scores]
    lines += ["", f"All figures: [Results](../../results/{page}).", ""]
    lines += ["## Not for", "", *(f"- {limit}." for limit in entry.limits), ""]
    lines += [f"Metadata as a STAC item of the MLM extension: [{entry.name}.json]({entry.name}.json).", ""]
    return "\n".join(lines)


def _item(entry: Published) -> pystac.Item:
    """The network as an item of STAC's Machine Learning Model extension."""
    item = pystac.Item(
        id=f"attcr-{entry.name}",
        geometry=None,
        bbox=None,
        datetime=datetime.fromisoformat(_git("show", "-s", "--format=%cI", entry.commit)),
        properties={"description": entry.purpose, "license": entry.licence, "attcr:limits": list(entry.limits)},
    )
    item.add_asset(
        "weights",
        pystac.Asset(
            f"../../../src/attcr/weights/published/{entry.name}.safetensors",
            title="Weights, safetensors",
            media_type="application/vnd.safetensors",
            roles=["mlm:model", "mlm:weights"],
            extra_fields={"file:checksum": f"1220{entry.sha256}", "file:size": entry.bytes},
        ),
    )
    AssetGeneralMLMExtension.ext(item.assets["weights"], add_if_missing=True).apply(artifact_type="safetensors")
    item.stac_extensions.append(FILE_SCHEMA)
    bands = [slot.name for slot in entry.spec.bands]
    item.properties["bands"] = [{"name": name, "eo:common_name": name} for name in bands]
    item.stac_extensions.append(EO_SCHEMA)
    mlm = MLMExtension.ext(item, add_if_missing=True)
    order = ["batch", "channel", "height", "width"]
    into, out = ([-1, len(planes), -1, -1] for planes in (entry.spec.slots, entry.spec.outputs))
    top = 255 if "rgb8" in entry.spec.products else entry.spec.bands[0].high
    scaling = ValueScaling.create(ValueScalingType.MIN_MAX, minimum=0, maximum=top)
    mlm.apply(
        name=entry.name,
        architecture={"attcr": "ATT-CR (Adaptive Triangular Transformer)"}.get(entry.network, entry.network),
        tasks=[TaskType.GENERATIVE],
        input=[
            ModelInput.create(
                "cloudy",
                bands,
                InputStructure.create(into, order, DataType.FLOAT32),
                value_scaling=scaling,
            )
        ],
        output=[
            ModelOutput.create("clear", [TaskType.GENERATIVE], ResultStructure.create(out, order, DataType.FLOAT32))
        ],
        framework="PyTorch",
        total_parameters=sum(p.numel() for p in load_model(entry.name).parameters()),
        pretrained=True,
        pretrained_source=entry.data,
        hyperparameters=Hyperparameters.create(training=entry.training),
    )
    return item


if __name__ == "__main__":
    half(*sys.argv[2:]) if sys.argv[1] == "half" else publish(sys.argv[1], sys.argv[2:])
