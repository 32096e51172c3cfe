"""Many scenes: what is to do, what is done, and who does it."""

from importlib.util import find_spec

import attcr.scenes.open  # noqa: F401  # says which extra is missing
from attcr.errors import MissingExtraError

for _library in ("obstore", "pyarrow"):
    if find_spec(_library) is None:
        raise MissingExtraError(_library, "fleet")
