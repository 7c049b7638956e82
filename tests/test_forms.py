"""The two forms of the server: plain Python, and hot modules compiled by `native.py`."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import licorne_core
from licorne_server.process.build_info import PURE
from properties.test_determinism import first_digest
from support.patience import PATIENCE
from support.sources import PACKAGES, ROOT

OPEN = {"NamedTuple", "Enum", "StrEnum", "Protocol"}
"""Bases of classes that stay open when they are compiled."""

INTERPRETED = ("core", "server", "clients", "tools", "tests")
"""Folders that may have interpreted classes."""

SUBCLASS = re.compile(r"^\s*class \w+\(", re.MULTILINE)
OURS = re.compile("licorne_(core|server)")
PURE_TEST = "mark.pure"

FROM_SOURCES = """
from licorne_tools.bench.command import prefer_sources
prefer_sources()
from licorne_server.process.build_info import build_info
from properties.test_determinism import digest
print(build_info().form, digest())
"""


def native(*statements: str) -> list[str]:
    """The values that a process prints after it has imported `native.py`, which is slow to import."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(("import native", *statements))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@cache
def compiled() -> frozenset[str]:
    """The files that `native.py` compiles, relative to the root."""
    return frozenset(native("print(*native.modules(), sep='\\n')"))


@pytest.mark.slow
def test_both_forms_make_the_same_decisions() -> None:
    """The effects of some worlds, in the present form, equal those of the pure form."""
    done = subprocess.run(
        [sys.executable, "-c", FROM_SOURCES],
        cwd=ROOT / "tests",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.split() == [PURE, first_digest()]


def test_compiled_files_are_not_older_than_their_sources() -> None:
    """Otherwise the tests would judge an old build: `make native` or `make pure` helps."""
    libraries = [path for package in PACKAGES for path in package.rglob("*/*.so")]
    sources = {path: path.with_name(path.name.partition(".")[0] + ".py") for path in libraries}
    changed = [
        str(source)
        for library, source in sources.items()
        if not source.exists() or source.stat().st_mtime > library.stat().st_mtime
    ]
    assert not changed


def test_every_pattern_of_compiled_files_matches() -> None:
    """Each pattern matches files, and every module of the core is matched."""
    idle = native(
        "from fnmatch import fnmatch",
        "files = [p.relative_to(native.ROOT).as_posix() for s in native.COMPILED",
        "         for p in native.ROOT.glob(s)]",
        "print(*(s for s in native.COMPILED if not [*native.ROOT.glob(s)]), sep='\\n')",
        "print(*(s for s in native.PURE if not any(fnmatch(f, s) for f in files)), sep='\\n')",
    )
    assert [line for line in idle if line] == []


def test_hot_modules_are_compiled() -> None:
    """The modules on the path of an allocation are compiled, and the `__init__` files of packages are not."""
    assert {"core/licorne_core/values/ranking.py", "server/licorne_server/wire/framing.py"} <= compiled()
    assert not [name for name in compiled() if name.endswith("__init__.py")]
    assert Path(str(licorne_core.__file__)).suffix == ".py"


def test_no_compiled_dataclass_has_a_class_variable() -> None:
    """A compiled dataclass would treat a class variable as a field, and could not be created."""
    offenders = [
        f"{name}: {node.name}"
        for name in sorted(compiled())
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        and any(
            isinstance(line, ast.AnnAssign) and "ClassVar" in ast.unparse(line.annotation)
            for line in node.body
        )
    ]
    assert offenders == []


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """Creating an interpreted subclass of a compiled class raises TypeError.

    A test file may have such classes for its tests of the pure form.
    """
    closed = {
        f"{module_of(name)}.{node.name}"
        for name in compiled()
        for node in ast.parse((ROOT / name).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not is_open(node)
    }
    for package in PACKAGES:
        for path in package.rglob("__init__.py"):
            names = imported(ast.parse(path.read_text(encoding="utf-8")).body)
            home = module_of(path.parent.relative_to(ROOT).as_posix())
            closed |= {f"{home}.{name}" for name, target in names.items() if target in closed}
    interpreted = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in INTERPRETED
        for path in (ROOT / folder).rglob("*.py")
        if path.relative_to(ROOT).as_posix() not in compiled()
    }
    offenders = [
        f"{name}: {offender}"
        for name, text in interpreted.items()
        if SUBCLASS.search(text)
        and OURS.search(text)
        and not (name.startswith("tests/") and PURE_TEST in text)
        for offender in inheriting(text, closed)
    ]
    assert offenders == []


@pytest.mark.parametrize(
    "text",
    [
        "from licorne_server.wire.errors import CallError as E\nclass A(E): ...",
        "from licorne_server.wire import errors\nclass A(errors.CallError): ...",
        "import licorne_server.wire.errors\nclass A(B, licorne_server.wire.errors.CallError[int]): ...",
        "import licorne_server.wire.errors as e\ndef f():\n    class A(e.CallError): ...",
    ],
)
def test_a_base_class_is_found_under_any_name(text: str) -> None:
    """The check finds a base class under any name by which it was imported."""
    assert list(inheriting(text, {"licorne_server.wire.errors.CallError"})) == ["A"]
    assert list(inheriting(text, {"licorne_server.wire.errors.Malformed"})) == []


def module_of(name: str) -> str:
    """The module in a file, by the file's name relative to the root."""
    return name.partition("/")[2].removesuffix(".py").replace("/", ".")


def is_open(node: ast.ClassDef) -> bool:
    """True if a compiled class may have interpreted subclasses."""
    marks = " ".join(map(ast.unparse, node.decorator_list))
    return "allow_interpreted_subclasses=True" in marks or not OPEN.isdisjoint(map(ast.unparse, node.bases))


def inheriting(text: str, closed: set[str]) -> Iterator[str]:
    """The classes in a source that have one of these bases."""
    nodes = list(ast.walk(ast.parse(text)))
    known = imported(nodes)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                name, dot, rest = ast.unparse(base).partition("[")[0].partition(".")
                if f"{known.get(name, name)}{dot}{rest}" in closed:
                    yield node.name


def imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The objects imported under each name of a source."""
    known = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            known.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            known.update({alias.asname: alias.name for alias in node.names if alias.asname})
    return known


def test_installing_does_not_compile() -> None:
    """The hook that compiles is off unless it is enabled."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["hooks"]["custom"]["enable-by-default"] is False
