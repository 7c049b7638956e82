"""What a server is compared with: another checkout, another interpreter, or the other form."""

import shutil
import sys
from pathlib import Path

from licorne_tools.bench.installation import HERE, Build, Installation, NotUsable, build_of

PURE = "pure"
CORE = "core/licorne_core"
PYTHON = "python"


def compared(what: str) -> tuple[Installation, Build]:
    """The installation that somebody means, and what runs there.

    `what` is `pure`, a checkout, a Python, or a `licorne` command.

    Raises:
        NotUsable: there is none, or no server can be imported there.
    """
    if what == PURE:
        installation = Installation(HERE.python, pure=True)
        return installation, build_of(installation)
    path = Path(shutil.which(what) or what).absolute()
    if path.is_dir():
        return checkout(path)
    if not path.is_file():
        raise NotUsable(f"{what} is neither a checkout nor a Python nor a licorne command")
    installation = Installation(str(python_of(path)))
    return installation, build_of(installation)


def checkout(folder: Path) -> tuple[Installation, Build]:
    """A checkout: run by the interpreter of its .venv, or by this one if it has none."""
    if not (folder / CORE).is_dir():
        raise NotUsable(f"{folder} is no checkout: it has no {CORE}")
    python = folder / ".venv/bin" / PYTHON
    if not python.exists():
        installation = Installation(sys.executable, checkout=folder)
        return installation, build_of(installation)
    installation = Installation(str(python))
    build = build_of(installation)
    if not Path(build.folder).resolve().is_relative_to(folder.resolve()):
        raise NotUsable(f"{python} runs {build.folder}: say make install in {folder}")
    return installation, build


def python_of(program: Path) -> Path:
    """The interpreter: the program itself, or the one beside a `licorne` command."""
    if program.name.startswith(PYTHON):
        return program
    python = program.resolve().with_name(PYTHON)
    if not python.exists():
        raise NotUsable(f"{program} is no Python, and there is none beside it")
    return python
