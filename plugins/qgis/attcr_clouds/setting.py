"""Which attcr does the work, as the user chose it in the options of Processing."""

from __future__ import annotations

from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import QgsApplication

from .engine import EngineError, find_attcr

CHOSEN = "ATTCR_ENVIRONMENT"
"""The setting's name."""
ICON = Path(__file__).with_name("icon.svg")


def profile() -> Path:
    """Give the folder of the user's profile."""
    return Path(QgsApplication.qgisSettingsDirPath())


def chosen_attcr() -> str:
    """Give the attcr to run."""
    return find_attcr(str(ProcessingConfig.getSetting(CHOSEN) or "").strip(), profile())


def can_run() -> tuple[bool, str]:
    """Say whether there is an attcr to run, and if not, how to get one."""
    try:
        chosen_attcr()
    except EngineError as error:
        return False, str(error)
    return True, ""
