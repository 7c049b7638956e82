"""The build: its version, its form (plain or compiled), and its Python."""

import platform
import sys
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

    `optimized` is True if the interpreter is no debug build, and was compiled with optimization.
    """

    version: str
    form: str
    python: str
    optimized: bool

    def __str__(self) -> str:
        """``licorne 0.1.0, compiled, CPython 3.11.7, optimized``."""
        built = "optimized" if self.optimized else "not optimized"
        return f"licorne {self.version}, {self.form}, {self.python}, {built}"


def build_info() -> BuildInfo:
    """The build of this process.

    All modules are compiled together, so the form of `schema` is the form of all. Benches also run this
    function with the packages of older checkouts, which have `schema` too.
    """
    return BuildInfo(
        version=version("licorne-server"),
        form=PURE if schema.__file__.endswith(".py") else COMPILED,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        optimized=_is_optimized(),
    )


def _is_optimized() -> bool:
    """True if the interpreter was compiled with optimization, by its compiler flags.

    Profile-guided optimization is no criterion: Debian uses it without naming it in the options.
    """
    flags = sysconfig.get_config_var("CFLAGS")
    # Only the last of several levels applies. On Windows there are no flags.
    levels = [flag for flag in str(flags).split() if flag.startswith("-O")]
    return not hasattr(sys, "gettotalrefcount") and (flags is None or levels[-1:] in (["-O2"], ["-O3"]))
