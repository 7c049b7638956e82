"""Rules for the source beyond linters: sizes, ratchets, docstrings of tests, builtins."""

import ast
import gc
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from ratchets import MEASURES, OF_PURE, TABLE

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "core",
    "server",
    "clients/python",
    "clients/cli",
    "clients/conformance",
    "docs",
    "proto",
    "tests",
    "tools",
)
GENERATED = (
    "clients/python/licorne/v1",
    "clients/python/licorne/si",
    "server/licorne_server/store/coordination/pb",
)
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_METHODS = 20
POINTS = "licorne_core/points.py"
"""Has a class of all points at which extensions take part; how many there may be is counted elsewhere."""
# These builtins do I/O, or their results differ from run to run.
BANNED_BUILTINS = {"open", "print", "input", "id"}
SLACK = 0.02
"""By this share a number may be below that of the table of ratchets."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def own_files() -> list[Path]:
    """Every Python file that a person wrote."""
    generated = tuple(ROOT / folder for folder in GENERATED)
    return sorted(
        path
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        if not any(path.is_relative_to(folder) for folder in generated)
    )


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    """Every node of the syntax tree of a file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    # Millions of nodes exist to the end, so they are hidden from the garbage collector.
    gc.freeze()
    return nodes


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, methods and inner ones included."""
    return (node for node in nodes_of(path) if isinstance(node, FUNCTIONS))


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of physical lines of a function without its docstring and decorators."""
    first = function.body[0]
    start = function.lineno
    if ast.get_docstring(function, clean=False) is None:
        return (function.end_lineno or start) - start + 1
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or start) - start + 1 - docstring


def place(path: Path, line: int, name: str) -> str:
    """A position in a file, in a form that editors can open."""
    return f"{path.relative_to(ROOT)}:{line}: {name}"


def assert_none(offenders: list[str], rule: str) -> None:
    """Fail with the complete list, and not with its first entry."""
    if offenders:
        pytest.fail("\n".join([rule, *offenders]), pytrace=False)


def test_files_are_short() -> None:
    """No file is longer than the limit: a longer one becomes a folder."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in own_files()}
    offenders = [place(path, 1, str(n)) for path, n in lengths.items() if n > MAX_FILE_LINES]
    assert_none(offenders, f"files over {MAX_FILE_LINES} lines:")


def test_functions_are_short() -> None:
    """No function is longer than the hard limit; its docstring does not count."""
    offenders = [
        place(path, function.lineno, f"{function.name} has {code_lines(function)}")
        for path in own_files()
        for function in functions(path)
        if code_lines(function) > MAX_FUNCTION_LINES
    ]
    assert_none(offenders, f"functions over {MAX_FUNCTION_LINES} lines:")


def test_classes_are_small() -> None:
    """No class has more methods than the limit; a larger class has to be divided by owner of state."""
    offenders = []
    for path in own_files():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(item, FUNCTIONS) for item in node.body)
                if methods > MAX_METHODS and not str(path).endswith(POINTS):
                    offenders.append(place(path, node.lineno, f"{node.name} has {methods}"))
    assert_none(offenders, f"classes over {MAX_METHODS} methods:")


def test_tests_state_their_promise() -> None:
    """Every test begins with a docstring that states its promise."""
    offenders = [
        place(path, function.lineno, function.name)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for function in functions(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert_none(offenders, "tests without a docstring:")


def test_core_calls_no_builtin_with_side_effects() -> None:
    """The core calls no builtins that do I/O, and orders nothing by address."""
    offenders = [
        place(path, node.lineno, node.func.id)
        for path in sorted((ROOT / "core").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_BUILTINS
    ]
    assert_none(offenders, "builtins that the core may not call:")


def test_the_table_of_ratchets_has_all_measures() -> None:
    """Each number in the table has its measure, and each measure its number."""
    assert list(tomllib.loads(TABLE.read_text(encoding="utf-8"))) == list(MEASURES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.pure] * (name in OF_PURE)) for name in MEASURES],
)
def test_ratchets_do_not_rise(name: str, rewrite: bool) -> None:
    """No measure is above its number, and the table has to follow lower ones."""
    table = TABLE.read_text(encoding="utf-8")
    most: int = tomllib.loads(table)[name]
    found = MEASURES[name]()
    if rewrite and found < most:
        before, after = (f'"{name}" = {number}\n' for number in (most, found))
        TABLE.write_text(table.replace(before, after), encoding="utf-8")
        return
    where = TABLE.relative_to(ROOT)
    assert found <= most, f"{name}: {found}, and {where} has {most}: find what to leave out instead"
    if found < most * (1 - SLACK):
        pytest.fail(f"{name}: {found}, well done; write that into {where}, which has {most}", False)
