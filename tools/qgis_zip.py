"""Pack the QGIS plugin into the zip that QGIS installs; the same sources give the same bytes.

    python tools/qgis_zip.py attcr_clouds.zip
    python tools/qgis_zip.py attcr_clouds.zip --set email=... --set repository=... --set tracker=...
    python tools/qgis_zip.py attcr_clouds.zip --choices  # first writes what attcr's options take into choices.json

QGIS's plugin repository wants the fields email, repository and tracker, too; a zip that is installed by hand does not.
"""

import argparse
import configparser
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

PLUGIN = Path(__file__).parents[1] / "plugins" / "qgis" / "attcr_clouds"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every file in the zip, the earliest that one can have."""
KINDS = {".py", ".txt", ".svg", ".qml", ".json", ""}
"""Endings of the files that belong to the plugin."""


def pack(target: Path, fields: Mapping[str, str] | None = None) -> list[str]:
    """Write the zip and name its files; `fields` are set in metadata.txt."""
    files = {
        path.relative_to(PLUGIN.parent).as_posix(): path.read_bytes()
        for path in PLUGIN.rglob("*")
        if path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts
    }
    metadata = f"{PLUGIN.name}/metadata.txt"
    files[metadata] = described(files[metadata].decode(), fields or {}).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # the same on every system
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return sorted(files)


def choices() -> str:
    """Give choices.json: what each option takes, and the weights. The plugin cannot ask: attcr runs elsewhere."""
    from attcr.restore.options import NO_WEIGHTS, restore_options
    from attcr.weights import restoring

    told = {name: list(option.choices) for name, option in restore_options().items() if option.choices}
    return json.dumps({"weights": [*restoring(), NO_WEIGHTS], **told}, indent=2) + "\n"


def described(metadata: str, fields: Mapping[str, str]) -> str:
    """Give metadata.txt with these fields set, and without those that are empty."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their capitals
    parser.read_string(metadata)
    general = parser["general"]
    unknown = set(fields) - set(general)
    if unknown:
        raise SystemExit(f"metadata.txt has no {', '.join(sorted(unknown))}; it has {', '.join(general)}")
    general.update(fields)
    for name in [name for name, value in general.items() if not value]:
        del general[name]
    text = io.StringIO()
    parser.write(text, space_around_delimiters=False)
    return text.getvalue().rstrip("\n") + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of metadata.txt")
    parser.add_argument("--choices", action="store_true", help="write choices.json from this attcr first")
    asked = parser.parse_args()
    if asked.choices:
        (PLUGIN / "choices.json").write_text(choices(), encoding="utf-8")
    fields = dict(text.split("=", 1) for text in asked.set)
    for name in pack(asked.target, fields):
        print(name)


if __name__ == "__main__":
    main()
