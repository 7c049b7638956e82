"""Puts compiled modules into the wheel of the server, when it is asked to.

It is off by default, so that installing the project needs no compiler. `make dist` and the image
switch it on: HATCH_BUILD_HOOK_ENABLE_CUSTOM=true.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeModules(BuildHookInterface[Any]):
    """Compiles beside the build, and adds the libraries to the wheel, which names its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a folder of our own, before the wheel is put together."""
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
        """Take the folder away."""
        if version != "editable":
            self._folder.cleanup()
