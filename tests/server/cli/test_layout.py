"""The command line can be a package of its own: what it needs of the server is known."""

import ast
from collections.abc import Iterator
from pathlib import Path

import licorne_cli

CLI = Path(licorne_cli.__file__).parent
MOST_AT_THE_TOP = 12
LEFT = {
    # Quantities and queues of a configuration, until the server compares and reads them.
    ("config/changes.py", "licorne_core.config"),
    ("config/changes.py", "licorne_core.config.schema"),
    ("config/changes.py", "licorne_core.values.errors"),
    ("config/changes.py", "licorne_core.values.resources"),
    ("config/submission_file.py", "licorne_core.config.document"),
    ("config/submission_file.py", "licorne_core.config.reader"),
    ("config/submission_file.py", "licorne_core.config.report"),
    ("config/submission_file.py", "licorne_core.values.priorities"),
    ("config/submit.py", "licorne_core.values.errors"),
}
"""The modules that import the core or the service, and what they import."""


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_commands_need_the_client_alone() -> None:
    """Nothing imports the core or the service, but for what is listed."""
    found = {
        (path.relative_to(CLI).as_posix(), module)
        for path in CLI.rglob("*.py")
        for module in imported(path)
        if module.split(".", maxsplit=1)[0] in ("licorne_core", "licorne_server")
    }
    assert found == LEFT


def test_the_top_is_short() -> None:
    """The folder is legible at a glance, and each folder in it has a first page."""
    entries = [path for path in CLI.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_AT_THE_TOP
    for folder in filter(Path.is_dir, entries):
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
