"""Installations of the server: an interpreter, with the folder and form of Licorne's packages.

`--against` compares this installation with another checkout, another interpreter, the pure form, or the
transport of gRPC's own library.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import licorne_core
from licorne_server.process.build_info import BuildInfo, build_info
from licorne_server.process.settings import GRPC

PROGRAM = Path(__file__).with_name("command.py")
ABOUT_SECONDS = 60.0
SHOWN_LINES = 5
ROOTS = ("core", "server", "clients/python", "clients/cli", "tools")
"""The folders of a checkout with packages."""


class NotUsable(Exception):
    """The installation cannot run a server; the text says why."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An interpreter, a checkout whose sources replace installed packages, and the form.

    With `pure` Licorne's packages are imported from sources, even if they are compiled; with `grpc` the
    server uses gRPC's own library, even if the wheel licorne-transport is installed.
    """

    python: str
    checkout: Path | None = None
    pure: bool = False
    grpc: bool = False

    def command(self, *arguments: str) -> list[str]:
        """The command line of `command.py` with these arguments.

        The file is always from this checkout, because another one may lack it.
        """
        options = [*(["--pure"] if self.pure else []), *(["--grpc"] if self.grpc else [])]
        if self.checkout is not None:
            options += [f"--root={self.checkout / root}" for root in ROOTS]
        # With -P Python does not search the folder of the program for modules.
        return [self.python, "-P", str(PROGRAM), *options, *arguments]

    def server(self, profile: Path | None = None) -> list[str]:
        """The begin of a `licorne` command line; with `profile`, a profile is written to that file."""
        return self.command(*([] if profile is None else ["--profile", str(profile)]))


HERE = Installation(sys.executable)
"""The installation of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build(BuildInfo):
    """A build, the folder of its core, and its commit.

    `commit` is empty if git does not track the folder, and ends in a plus if there are uncommitted changes.
    """

    folder: str
    commit: str

    def __str__(self) -> str:
        """The text of the `BuildInfo`, with the commit."""
        text = BuildInfo.__str__(self)
        return f"{text}, commit {self.commit}" if self.commit else text


def this_build() -> Build:
    """The build of this process."""
    folder = Path(licorne_core.__file__).parent
    return Build(**asdict(build_info()), folder=str(folder), commit=commit_of(folder))


def build_of(installation: Installation) -> Build:
    """The build of an installation, as reported by a process that imports the server.

    Raises:
        NotUsable: the server cannot be imported, or the report is invalid.
    """
    try:
        done = subprocess.run(
            installation.command("--about"),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ABOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotUsable(f"{installation.python} cannot be run: {error}") from None
    if done.returncode != 0:
        shown = "\n".join(done.stderr.splitlines()[-SHOWN_LINES:])
        raise NotUsable(f"{installation.python} cannot import the server:\n{shown}")
    try:
        about: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return Build(**about, commit=commit_of(Path(about["folder"])))
    except (IndexError, KeyError, TypeError, ValueError):
        shown = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:]) or "nothing"
        raise NotUsable(
            f"{installation.python} is asked which server it has, and answers:\n{shown}"
        ) from None


def commit_of(folder: Path) -> str:
    """The commit of the files in a folder, with a plus if there are uncommitted changes.

    Empty if git does not track the files, as in an installed package.
    """
    sources = [f":/{root}" for root in ROOTS]
    try:
        if not git(folder, "ls-files", "__init__.py"):
            return ""
        changed = git(folder, "status", "--porcelain", "--untracked-files=no", "--", *sources)
        return git(folder, "rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except NotUsable:
        return ""


def git(folder: Path, *arguments: str) -> str:
    """The output of git in a folder.

    Raises:
        NotUsable: git has failed; the text is git's message.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NotUsable(f"git cannot be run: {error}") from None
    if done.returncode != 0:
        raise NotUsable(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


PURE = "pure"
CORE = "core/licorne_core"
PYTHON = "python"


def compared(what: str) -> tuple[Installation, Build]:
    """The installation named by a value of `--against`, and its build.

    `what` is `pure`, `grpc`, a checkout, a Python, or a `licorne` command.

    Raises:
        NotUsable: the installation does not exist, or its server cannot be imported.
    """
    if what in (PURE, GRPC):
        installation = Installation(HERE.python, pure=what == PURE, grpc=what == GRPC)
        return installation, build_of(installation)
    path = Path(shutil.which(what) or what).absolute()
    if path.is_dir():
        return checkout(path)
    if not path.is_file():
        raise NotUsable(f"{what} is neither a checkout nor a Python nor a licorne command")
    installation = Installation(str(python_of(path)))
    return installation, build_of(installation)


def checkout(folder: Path) -> tuple[Installation, Build]:
    """A checkout with the interpreter of its .venv, or this one if it has no .venv; and its build."""
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
    """The interpreter for a program: the program itself, or for a `licorne` command the Python beside it."""
    if program.name.startswith(PYTHON):
        return program
    python = program.resolve().with_name(PYTHON)
    if not python.exists():
        raise NotUsable(f"{program} is no Python, and there is none beside it")
    return python
