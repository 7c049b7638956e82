"""The present values of measures that may only fall; ``ratchets.toml`` has their bounds."""

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from licorne_core.points import POINTS
from support.wire.one_ask import Trace, trace_one_ask

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).parent / "ratchets.toml"
CORE = ROOT / "core" / "licorne_core"
SERVER = ROOT / "server" / "licorne_server"
CLIENT = ROOT / "clients" / "python" / "licorne"
GENERATED = (CLIENT / "v1", CLIENT / "si", SERVER / "store" / "coordination" / "pb")
CLI = ROOT / "clients" / "cli" / "licorne_cli"
PAGE = SERVER / "http" / "ui"
COMMANDS = (SERVER / "commands", SERVER / "lab" / "commands", SERVER / "lab" / "demo")
TOOLS = ROOT / "tools" / "licorne_tools"
COMMAND_LINE = (CLI, *COMMANDS, TOOLS / "commands")
WAITING_ROOM = CORE / "scheduling"
FEATURES = (CORE / "standard", CORE / "extensions")
WAKERS = {"wakeups"}
"""Names of the objects that learn of changes, so waiting items are tried again."""
WAKING = {"unpark", "unpark_all", "wake"}
"""Methods that wake items without these objects."""
A_FIELD = re.compile(r"\bfair_max(: | = \d+;)|\.fair_max\b|\bfairMax\b|FAIR MAX")
"""Pattern of the code for the latest field of a queue; a new field touches the same files."""


def _files(folder: Path, *apart: Path) -> list[Path]:
    """The Python files that a person wrote below a folder."""
    apart = (*apart, *GENERATED)
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        if not any(path.is_relative_to(other) for other in apart)
    ]


def _product() -> list[Path]:
    return [path for package in (CORE, SERVER, CLIENT, CLI, TOOLS) for path in _files(package)]


def _lines(files: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def _entries(package: Path) -> int:
    """The number of modules and folders at the top of a package."""
    return sum(
        path.is_dir() if path.suffix != ".py" else path.name != "__init__.py"
        for path in package.iterdir()
        if not path.name.startswith((".", "__pycache__"))
    )


def _files_of_a_field() -> int:
    """The number of files of the product that name the fair maximum of a queue's report."""
    shown = [*(ROOT / "proto").rglob("*.proto"), *PAGE.rglob("*.js")]
    files = [*_product(), *shown]
    return sum(A_FIELD.search(path.read_text(encoding="utf-8")) is not None for path in files)


def _wake_calls() -> int:
    """The number of places outside its waiting folder where the core wakes items."""
    calls = (
        node.func
        for path in _files(CORE, WAITING_ROOM)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    return sum(call.attr in WAKING or _receiver(call) in WAKERS for call in calls)


def _receiver(call: ast.Attribute) -> str:
    """The name of the object of a method call, without the path to it."""
    name = call.value.attr if isinstance(call.value, ast.Attribute) else getattr(call.value, "id", "")
    return str(name).lstrip("_")


def _slow_marks() -> int:
    """The number of tests, or groups of them, that are marked slow."""
    return sum(path.read_text(encoding="utf-8").count("mark." + "slow") for path in _files(ROOT / "tests"))


@cache
def _one_ask() -> Trace:
    return trace_one_ask((CORE, SERVER))


MEASURES: dict[str, Callable[[], int]] = {
    "lines of the core": lambda: _lines(_files(CORE)),
    "lines of the kernel": lambda: _lines(_files(CORE, *FEATURES)),
    "modules of the kernel": lambda: len(_files(CORE, *FEATURES)),
    "points in their groups": lambda: sum(map(len, POINTS.values())),
    "lines of the server": lambda: _lines(_files(SERVER, *COMMANDS, PAGE)),
    "lines of the command line": lambda: sum(_lines(_files(place)) for place in COMMAND_LINE),
    "lines of the tests": lambda: _lines(_files(ROOT / "tests")),
    "modules of the product": lambda: len(_product()),
    "entries of the core": lambda: _entries(CORE),
    "entries of the server": lambda: _entries(SERVER),
    "modules of one ask": lambda: len(_one_ask().modules),
    "calls of one ask": lambda: _one_ask().calls,
    "files of a queue's field": _files_of_a_field,
    "wake calls outside scheduling": _wake_calls,
    "marks of slow tests": _slow_marks,
}
OF_PURE = {"modules of one ask", "calls of one ask"}
"""What can be counted while Python runs the sources."""
