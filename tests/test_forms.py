"""The two forms of the server: plain Python, and hot modules compiled by `native.py`."""

import ast
import os
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import licorne_core
from licorne_server.process.build_info import PURE
from properties.test_determinism import first_digest
from support.patience import PATIENCE
from support.sources import PACKAGES, ROOT

OPEN = {"NamedTuple", "Enum", "StrEnum", "Protocol", "Exception", "ValueError"}
"""Bases of classes that stay open when they are compiled."""

FROM_SOURCES = """
from licorne_tools.bench.command import prefer_sources
prefer_sources()
from licorne_server.process.build_info import build_info
from properties.test_determinism import digest
print(build_info().form, digest())
"""


def native(*statements: str) -> list[str]:
    """What a process prints that has imported `native.py`, which takes long to import."""
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
def test_both_forms_decide_the_same() -> None:
    """The effects of some worlds here, in whatever form, are those of the sources."""
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


def test_what_is_compiled_in_place_is_not_older_than_its_source() -> None:
    """Else the tests would judge what was there before: `make native` or `make pure` helps."""
    libraries = [path for package in PACKAGES for path in package.rglob("*/*.so")]
    sources = {path: path.with_name(path.name.partition(".")[0] + ".py") for path in libraries}
    changed = [
        str(source)
        for library, source in sources.items()
        if not source.exists() or source.stat().st_mtime > library.stat().st_mtime
    ]
    assert not changed


def test_every_rule_of_what_is_compiled_says_something() -> None:
    """Each pattern names files that there are, and every module of the core is judged by them."""
    idle = native(
        "from fnmatch import fnmatch",
        "files = [p.relative_to(native.ROOT).as_posix() for s in native.COMPILED",
        "         for p in native.ROOT.glob(s)]",
        "print(*(s for s in native.COMPILED if not [*native.ROOT.glob(s)]), sep='\\n')",
        "print(*(s for s in native.PURE if not any(fnmatch(f, s) for f in files)), sep='\\n')",
    )
    assert [line for line in idle if line] == []


def test_the_hot_modules_are_compiled_and_packages_are_not() -> None:
    """What an allocation passes through is in the list; a package's own file is not."""
    assert {"core/licorne_core/values/ranking.py", "server/licorne_server/wire/framing.py"} <= compiled()
    assert not [name for name in compiled() if name.endswith("__init__.py")]
    assert Path(str(licorne_core.__file__)).suffix == ".py"


def test_no_compiled_dataclass_has_a_class_variable() -> None:
    """Compiled, a dataclass takes a class variable for a field, and cannot be made."""
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
    """Compiled, a class has no interpreted subclasses: whoever makes one gets a TypeError."""
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in package.rglob("*.py")
    }
    closed = {
        (name.partition("/")[2].removesuffix(".py").replace("/", "."), node.name)
        for name in compiled()
        for node in trees[name].body
        if isinstance(node, ast.ClassDef) and OPEN.isdisjoint(map(ast.unparse, node.bases))
    }
    offenders = [
        f"{name}: {node.name}"
        for name, tree in trees.items()
        if name not in compiled()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any((whence(tree, base), ast.unparse(base)) in closed for base in node.bases)
    ]
    assert offenders == []


def whence(tree: ast.Module, base: ast.expr) -> str:
    """The module that a module has a class from; empty for its own."""
    name = ast.unparse(base)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return next((node.module or "" for node in imports if name in {a.name for a in node.names}), "")


def test_installing_needs_no_compiler() -> None:
    """The hook that compiles is off unless it is asked for."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["hooks"]["custom"]["enable-by-default"] is False
