"""What a build does: compile the operator's kernel into the wheel, and give the first page links that hold anywhere.

Without a compiler the wheel is for any platform. ATTCR_REPOSITORY=OWNER/NAME says where on GitHub the sources are.

ATTCR_KERNEL=0 leaves it out. The library needs nothing but the C library, so one wheel serves every Python 3. The
wheel is for the machine that the compiler compiles for: CXX=aarch64-linux-gnu-g++ makes one for AArch64 anywhere.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCES = (Path("src/attcr/ops/kernel.cpp"), Path("src/attcr/ops/depthwise.cpp"))
LIBRARY = Path("src/attcr/ops/_kernel.so")
FLAGS = [
    "-O3", "-std=c++17", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fno-trapping-math",
    "-fno-signed-zeros", "-ffp-contract=fast", "-fvisibility=hidden",
]  # fmt: skip
SETS: dict[str, dict[str, list[str]]] = {
    "x86_64": {
        "avx2": ["-DLANES=8", "-mavx2", "-mfma"],
        "avx512": ["-DLANES=16", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma"],
    },
    "aarch64": {"neon": ["-DLANES=4"]},
}
"""The instruction sets that are compiled for each machine, as kernel.cpp names them."""
TAGS = "manylinux_2_17"
"""The oldest system the library runs on: it asks for no symbol newer than glibc 2.17."""


def compile_kernel(folder: Path, target: Path, machine: str, compiler: list[str]) -> None:
    """Compile the kernel in `folder` for a machine, and link it into `target`."""
    with tempfile.TemporaryDirectory() as room:
        objects = []
        for source, (isa, flags) in itertools.product(SOURCES, {"": [], **SETS[machine]}.items()):
            made = f"{room}/{source.stem}-{isa or 'calls'}.o"
            named = [f"-DISA={isa}"] if isa else []
            _run([*compiler, *FLAGS, *flags, *named, "-c", str(folder / source), "-o", made])
            objects.append(made)
        linked = f"{room}/kernel.so"
        _run([*compiler, "-shared", "-nodefaultlibs", "-s", *objects, "-lc", "-lgcc", "-o", linked])
        partial = target.with_suffix(".partial")
        partial.write_bytes(Path(linked).read_bytes())
        partial.replace(target)  # programs that run from these sources see the one or the other


def machine_of(compiler: list[str]) -> str:
    """The machine that a compiler compiles for, as x86_64 or aarch64."""
    return _run([*compiler, "-dumpmachine"]).partition("-")[0].strip()


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{shlex.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def absolute(page: str, repository: str) -> str:
    """Give a page of the repository's root whose links to files hold outside it: pictures as files, others as pages."""
    pictures = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1https://github.com/{repository}/raw/HEAD/", page)
    return re.sub(r"((?<!!)\[[^]!]*\]\()(?!https?:|#)", rf"\1https://github.com/{repository}/blob/HEAD/", pictures)


class PageHook(MetadataHookInterface):
    """Make README.md the page of the package, and name the project's addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Without ATTCR_REPOSITORY the links stay relative and no address is named."""
        page = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("ATTCR_REPOSITORY", "")
        metadata["urls"] = {}
        if repository:
            page, home = absolute(page, repository), f"https://github.com/{repository}"
            metadata["urls"] = {
                "Source": home, "Issues": f"{home}/issues", "Changelog": f"{home}/blob/HEAD/CHANGELOG.md"
            }  # fmt: skip
        if site := os.environ.get("ATTCR_SITE_URL"):
            metadata["urls"]["Documentation"] = site
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put the compiled kernel into wheels and editable installs.

    A wheel leaves the sources as they are: programs may be running from them.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform in the wheel; a failure leaves a wheel for any platform."""
        folder, compiler = Path(self.root), shlex.split(os.environ.get("CXX") or "c++")
        self._room = tempfile.TemporaryDirectory()
        editable = version == "editable"
        library = (folder if editable else Path(self._room.name)) / (LIBRARY if editable else LIBRARY.name)
        if os.environ.get("ATTCR_KERNEL") == "0" or sys.platform != "linux":
            if editable:
                library.unlink(missing_ok=True)
            return
        try:
            machine = machine_of(compiler)
            if machine not in SETS:
                return
            compile_kernel(folder, library, machine, compiler)
        except OSError as error:
            if editable:
                library.unlink(missing_ok=True)  # one of other sources would not fit these
            self.app.display_warning(f"attcr is built without its compiled operator, and runs slower on CPUs: {error}")
            return
        if editable:
            build_data["artifacts"].append(f"/{LIBRARY}")
            return
        build_data["force_include"][str(library)] = str(LIBRARY.relative_to("src"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{TAGS}_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for the wheel."""
        self._room.cleanup()
