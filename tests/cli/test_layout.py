"""The source folder of the command line is easy to survey."""

import ast
from pathlib import Path

import licorne_cli

CLI = Path(licorne_cli.__file__).parent
MOST_AT_THE_TOP = 12


def test_the_top_level_folder_is_short() -> None:
    """The top level has few files, and each of its folders has a README."""
    entries = [path for path in CLI.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_AT_THE_TOP
    for folder in filter(Path.is_dir, entries):
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
