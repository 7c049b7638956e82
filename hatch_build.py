"""Build hook that adds the compiled modules to the wheel of the server.

It is disabled by default, so that an installation needs no compiler. `make dist` and the image enable it
with HATCH_BUILD_HOOK_ENABLE_CUSTOM=true.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeModules(BuildHookInterface[Any]):
    """Compiles the modules, adds the libraries to the wheel, and tags the wheel with its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary folder before the wheel is built; an editable wheel has no libraries."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        built = Path(self._folder.name)
        command = [sys.executable, "native.py", "into", str(built)]
        subprocess.run(command, cwd=self.root, check=True)
        for library in built.rglob("*.so"):
            build_data["force_include"][str(library)] = library.relative_to(built).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._folder.cleanup()
