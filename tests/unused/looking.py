"""Finds classes, functions and methods of the product that only tests use, or nothing.

A definition is used if its name occurs in the product: as a name, an attribute, or in a text of one word,
such as an annotation. An import alone is no use. A name that two definitions share may hide one of them;
findings are certain, with these exceptions:

- What the client exports (`__all__`), with the public methods of those classes.
- The test kit, `licorne_server.testing`, which is for the tests of users, and the core's
  invariants, which are for our own tests.
- Methods of a class with a base from outside of the product, which calls them by name:
  services of gRPC, visitors, handlers, threads.
- What a decorator from outside of the product registers.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PRODUCT = (
    "core/licorne_core",
    "server/licorne_server",
    "clients/python/licorne",
    "clients/cli/licorne_cli",
    "tools/licorne_tools",
)
"""The folders that are checked."""
ALSO_USING = ("clients/examples", "clients/conformance", "docs", "deploy", "native.py")
"""Other folders of the project that may use the product."""
GENERATED = (
    "clients/python/licorne/v1",
    "clients/python/licorne/si",
    "server/licorne_server/store/coordination/pb",
)
TEST_KIT = "server/licorne_server/testing"

AWAITED = frozenset({"PlaceholderIncompatible"})
"""Definitions that the product will use soon."""

SELF_CHECKS = "invariants.py"
"""Checks of the core itself, for its tests."""

_PACKAGES = frozenset(place.rpartition("/")[2] for place in PRODUCT)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WRAPPING = frozenset(
    [
        "property",
        "setter",
        "cached_property",
        "staticmethod",
        "classmethod",
        "cache",
        "lru_cache",
        "dataclass",
        "contextmanager",
        "asynccontextmanager",
        "total_ordering",
        "unique",
        "final",
        "override",
        "overload",
        "abstractmethod",
        "runtime_checkable",
    ]
)
"""Decorators that change the use of a definition, and do not use it."""

_FORMS = frozenset({"Protocol", "NamedTuple", "Enum", "StrEnum", "IntEnum", "Generic"})
"""Bases from outside that call nothing; `asyncio.Protocol` differs from `Protocol`."""

_Defined = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Definition:
    """The position of a class, function or method."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        """``file:line: name``, as linters say it."""
        return f"{self.file}:{self.line}: {self.name} is used by nothing but tests"


def unused(root: Path) -> list[Definition]:
    """All definitions of the product that it does not use."""
    trees = {str(path.relative_to(root)): _tree(path) for path in _files(root, PRODUCT)}
    users = [*trees.values(), *map(_tree, _files(root, ALSO_USING))]
    used = Counter[str]()
    for tree in users:
        used.update(_names(tree))
    classes = [_Class(node, tree) for tree in trees.values() for node in _classes(tree)]
    exported = _exported(trees["clients/python/licorne/__init__.py"])
    open_to_others = _bases_of(exported, classes) | _called_from_outside(classes)
    return sorted(
        Definition(file, node.lineno, node.name)
        for file, tree in trees.items()
        if not file.startswith(TEST_KIT) and not file.endswith(SELF_CHECKS)
        for node in _definitions(tree, open_to_others)
        if not used[node.name] and node.name not in exported | AWAITED
    )


def _files(root: Path, places: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        for path in sorted((root / place).rglob("*.py")) or [root / place]:
            where = str(path.relative_to(root))
            if path.is_file() and path.suffix == ".py" and not where.startswith(GENERATED):
                yield path


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names(tree: ast.AST) -> Iterator[str]:
    """Every name that is used; an import, a definition and `__all__` are no uses."""
    listed = {id(text) for node in ast.walk(tree) if _is_list_of_all(node) for text in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in listed
            and " " not in node.value.strip()
        ):
            yield from _NAME.findall(node.value)


def _is_list_of_all(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def _exported(package: ast.Module) -> frozenset[str]:
    lists = [node for node in package.body if isinstance(node, ast.Assign) and _is_list_of_all(node)]
    return frozenset(name for node in lists for name in ast.literal_eval(node.value))


def _classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


class _Class:
    """A class by its name, with the names of its bases that the product defines."""

    def __init__(self, node: ast.ClassDef, tree: ast.Module) -> None:
        """`is_called` is True if a base from outside calls its methods."""
        bases = [base for base in node.bases if not _is_plain(base)]
        self.name = node.name
        self.bases = set(map(_last_name, bases))
        self.is_called = not _from_outside(tree).isdisjoint(map(_first_name, bases))


def _from_outside(tree: ast.Module) -> set[str]:
    """The names that a module imports from outside of the product, or from generated code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            if module is None or module.endswith("_grpc") or module.split(".")[0] not in _PACKAGES:
                found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return found


def _bases_of(names: frozenset[str], classes: Sequence[_Class]) -> set[str]:
    """The names, and those of their base classes."""
    found = set(names)
    while more := {base for each in classes if each.name in found for base in each.bases} - found:
        found |= more
    return found


def _called_from_outside(classes: Sequence[_Class]) -> set[str]:
    """The classes with a base from outside, and all that inherit from them."""
    found = {each.name for each in classes if each.is_called}
    while more := {each.name for each in classes if not each.bases.isdisjoint(found)} - found:
        found |= more
    return found


def _definitions(tree: ast.AST, open_to_others: set[str]) -> Iterator[_Defined]:
    """The definitions that have to be used by name, without those that others call by convention."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not (_is_special(node.name) or _is_registered(node)):
                yield node
            if isinstance(node, ast.ClassDef) and node.name in open_to_others:
                continue
        yield from _definitions(node, open_to_others)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_registered(node: _Defined) -> bool:
    return any(_last_name(decorator) not in _WRAPPING for decorator in node.decorator_list)


def _is_plain(base: ast.expr) -> bool:
    """True if a base only gives a class its form, and calls none of its methods."""
    name = base.value if isinstance(base, ast.Subscript) else base
    return isinstance(name, ast.Name) and name.id in _FORMS


def _first_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return getattr(node, "id", "")


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
