"""The check for code that only tests use: its findings, and its exceptions."""

from pathlib import Path

from unused.looking import unused

CORE = """\
import ast
from dataclasses import dataclass
from registry import hook
__all__ = ["only_listed"]

def used(): ...
def by_annotation(): ...
def only_listed(): ...
async def never(): ...
@hook
def registered(): ...

@dataclass
class Never:
    @property
    def nor_this(self): ...
    def __str__(self): ...

class Visitor(ast.NodeVisitor):
    def visit_Name(self): ...

class Narrower(Visitor):
    def visit_Call(self): ...

def start(what: "by_annotation"):
    Narrower().visit(what)
    return used()
start(None)
"""
CLIENT = "from licorne.calls import Client\n__all__ = ['Client']\n"
CALLS = "class Calls:\n    def call(self): ...\n\nclass Client(Calls):\n    def more(self): ...\n"


def write(root: Path, **files: str) -> None:
    """Write a product of these files; a name has the folder and, after two dashes, the module."""
    folders = {"core": "core/licorne_core", "client": "clients/python/licorne"}
    folders |= {"kit": "server/licorne_server/testing", "docs": "docs"}
    for name, text in files.items():
        place, _, module = name.partition("__")
        path = root / folders[place] / f"{module or '__init__'}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found(root: Path) -> list[str]:
    """The names of unused definitions."""
    return [each.name for each in unused(root)]


def test_unused_definitions_are_found(tmp_path: Path) -> None:
    """Functions, classes and methods are found if nothing names them except imports and `__all__`."""
    write(tmp_path, core__a=CORE, client=CLIENT, client__calls=CALLS)
    assert found(tmp_path) == ["only_listed", "never", "Never", "nor_this"]
    assert str(unused(tmp_path)[1]) == ("core/licorne_core/a.py:9: never is used by nothing but tests")


def test_a_use_anywhere_in_the_project_counts(tmp_path: Path) -> None:
    """A use in another module or in a script of the project counts; a use in a test does not."""
    write(tmp_path, core__a=CORE, client=CLIENT, client__calls=CALLS)
    write(tmp_path, docs__made="from licorne_core import a\na.Never().nor_this, a.never()\n")
    assert found(tmp_path) == ["only_listed"]
    test = tmp_path / "tests" / "test_a.py"
    test.parent.mkdir()
    test.write_text("from licorne_core.a import only_listed\nonly_listed()\n", encoding="utf-8")
    assert found(tmp_path) == ["only_listed"]


def test_definitions_for_others_count_as_used(tmp_path: Path) -> None:
    """The client's exported classes, their bases, the test kit and the core's own checks count as used."""
    nobody = "def nobody(): ...\n"
    write(tmp_path, client=CLIENT, client__calls=CALLS, kit__a=nobody, core__my_invariants=nobody)
    assert found(tmp_path) == []
    write(tmp_path, client="", core__other=nobody)
    assert found(tmp_path) == ["call", "Client", "more", "nobody"]
