"""Planted defects, and how they are applied to a tree of sources."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from mutants.operators import Code, Operator

PACKAGES = (
    "core/licorne_core",
    "server/licorne_server",
    "clients/python/licorne",
    "clients/cli/licorne_cli",
    "tools/licorne_tools",
)
"""Folders of sources."""
GENERATED = ("clients/python/licorne/v1", "clients/python/licorne/si")
_DEFINED = re.compile(r"^\s*(?:(?:async )?def |class )?(\w+)\b(?=.*[=:(])", re.MULTILINE)


class DoesNotApply(Exception):
    """The defect cannot be planted in the present source, or its test does not exist; the text says why."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A mistake that a programmer could make, and the tests that have to detect it.

    `where` is a function, a method or a constant: `excess`, `Waiting.park`, `IPV6_PREFIX`. If several
    modules have the name, it is preceded by a folder or module, as in `quotas:excess`. Tests are named by
    file, with or without folders: `test_waiting`, `core/test_gangs::test_name`.
    """

    name: str
    where: str
    operator: Operator
    wrong: str
    """The wrong behaviour that the defect causes, in a sentence."""
    tests: tuple[str, ...]
    nth: int | None = None
    """The number of the place in the function, from 1; None if there is only one place."""
    slow: bool = False
    """Whether only tests marked `slow`, which `make test` does not run, detect the defect."""

    def changed(self, tree: Path) -> tuple[Path, str]:
        """The file of the definition, and its text with the defect.

        Raises:
            DoesNotApply: the place does not exist, or is ambiguous.
        """
        path, node = definition(tree, self.where)
        source = _sources(tree)[path]
        places = list(self.operator.find(Code(source, node)))
        nth = self.nth or 1
        if nth > len(places) or (self.nth is None and len(places) > 1):
            where = f"{self.where} in {path.relative_to(tree)}"
            raise DoesNotApply(f"{where} has {len(places)} places where {self.operator.shown}")
        start, end, new = places[nth - 1]
        changed = source[:start] + new + source[end:]
        try:
            compile(changed, str(path), "exec")
        except SyntaxError as error:
            raise DoesNotApply(f"{self.where} does not parse if {self.operator.shown}: {error}") from None
        return path, changed

    def plant(self, tree: Path) -> tuple[Path, str]:
        """Write the defect to the tree; return the file and its former text."""
        path, changed = self.changed(tree)
        write(path, changed)
        return path, _sources(tree)[path]

    def tests_in(self, tree: Path) -> list[str]:
        """The tests, as arguments of pytest in the tree.

        Raises:
            DoesNotApply: a test does not exist, or several files match its name.
        """
        return [_test(tree, test) for test in self.tests]


def definition(tree: Path, where: str) -> tuple[Path, ast.stmt]:
    """The file and the only definition of a qualified name.

    Raises:
        DoesNotApply: the name has no definition, or several.
    """
    room, _, name = where.rpartition(":")
    first, *others = (_defining(tree).get(part, ()) for part in name.split("."))
    found = [
        (path, node)
        for path in first
        if all(path in other for other in others)
        if not room or room in (*path.relative_to(tree).parent.parts, path.stem)
        for node in _named(ast.parse(_sources(tree)[path]).body, name)
    ]
    if len(found) != 1:
        files = ", ".join(str(path.relative_to(tree)) for path, _ in found) or "no file"
        raise DoesNotApply(f"{where} is defined in {files}")
    return found[0]


def _named(body: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """The definitions in a body with a dotted name."""
    first, _, rest = name.partition(".")
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == first:
                if rest:
                    yield from _named(node.body, rest)
                else:
                    yield node
            case ast.Assign(targets=[ast.Name(id=known)]) | ast.AnnAssign(target=ast.Name(id=known)):
                if known == name:
                    yield node


@cache
def _sources(tree: Path) -> dict[Path, str]:
    """The source files of the packages, except generated ones, and their original text."""
    generated = tuple(tree / folder for folder in GENERATED)
    return {
        path: path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((tree / package).rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in generated)
    }


@cache
def _defining(tree: Path) -> dict[str, list[Path]]:
    """The files that may define a name, by name."""
    found: dict[str, list[Path]] = {}
    for path, text in _sources(tree).items():
        for name in dict.fromkeys(_DEFINED.findall(text)):
            found.setdefault(name, []).append(path)
    return found


@cache
def _tests(tree: Path) -> dict[str, list[Path]]:
    """The files in the folder of tests, by file name."""
    found: dict[str, list[Path]] = {}
    for path in sorted((tree / "tests").rglob("*.py")):
        found.setdefault(path.name, []).append(path)
    return found


def _test(tree: Path, test: str) -> str:
    """A test, or a file of tests, as an argument of pytest."""
    file, colons, function = test.partition("::")
    named = _tests(tree).get(f"{file.rpartition('/')[2]}.py", ())
    found = [path for path in named if path.match(f"{file}.py")]
    if len(found) != 1:
        raise DoesNotApply(f"{len(found)} files of tests are called {file}")
    if function and f"def {function.partition('[')[0]}(" not in found[0].read_text(encoding="utf-8"):
        raise DoesNotApply(f"{file} has no {function}")
    return f"{found[0].relative_to(tree)}{colons}{function}"


def write(path: Path, text: str) -> None:
    """Write a source file, and remove its bytecode, which Python could consider current."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
