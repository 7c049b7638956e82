"""The build: its version, its form (plain or compiled), and its Python."""

import platform
import sysconfig
from dataclasses import dataclass
from importlib.metadata import version

from licorne_core.config import schema

PURE = "pure"
"""The source, run by the interpreter."""

COMPILED = "compiled"
"""The hot modules are machine code."""


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The version, the form of the core, and the interpreter.

    `optimized`: the interpreter was built with ``--enable-optimizations``.
    """

    version: str
    form: str
    python: str
    optimized: bool

    def __str__(self) -> str:
        """``licorne 0.1.0, compiled, CPython 3.11.7 built with --enable-optimizations``."""
        built = f"built {'with' if self.optimized else 'without'} --enable-optimizations"
        return f"licorne {self.version}, {self.form}, {self.python} {built}"


def build_info() -> BuildInfo:
    """The build of this process.

    All modules are compiled together, so one of them is representative. It exists in older checkouts
    too, on which benches call this.
    """
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return BuildInfo(
        version=version("licorne-server"),
        form=PURE if schema.__file__.endswith(".py") else COMPILED,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        optimized="--enable-optimizations" in options,
    )
