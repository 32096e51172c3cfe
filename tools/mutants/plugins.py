"""Mistakes in the QGIS plugin."""

from .mutant import of

MUTANTS = [
    *of(
        "../../plugins/qgis/attcr_clouds/engine.py",
        ("tests/plugins/test_engine.py",),
        ("stopped-is-an-error", "if ended.stopped or listener.stopped():", "if False:"),
        ("the-folder-stays", "for pause in (0.0, 0.2, 1.0, 3.0):", "for pause in ():"),
        (
            "the-internet-is-asked",
            '["--no-index", "--find-links", wheels] if wheels',
            '["--find-links", wheels] if wheels',
        ),
        ("stale-files-stay", "elif path.exists():", "elif False:"),
        ("a-link-to-an-input", "if os.path.realpath(path) in read:", "if str(path) in read:"),
        ("anybodys-files", "if taken and not _is_ours(target):", "if not taken and not _is_ours(target):"),
        ("qgis-own-python", "if name not in OF_QGIS", "if name"),
        ("stages-without-start", "first + (last - first) * part", "(last - first) * part"),
        ("the-folder-is-told", "lambda text: text.replace(str(folder) + os.sep", "lambda text: text.replace(''"),
        ("any-item-is-ours", 'item["assets"]["restored"]["href"] == f"./{target.name}"', "True"),
    ),
]
