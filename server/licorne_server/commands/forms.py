"""Forms that options of `licorne serve` have in common."""

import argparse
from pathlib import Path

from licorne_cli.parsing.parser import size


class Options:
    """Adds options to a parser, all options of a kind in the same form."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Add to this parser."""
        self.add = parser.add_argument

    def seconds(self, name: str, usual: float, text: str) -> None:
        """A time in seconds; the help states its default."""
        self.add(name, type=float, default=usual, metavar="SECONDS", help=f"{text} (%(default)s)")

    def count(self, name: str, usual: int, text: str) -> None:
        """A number; the help states its default."""
        self.add(name, type=int, default=usual, metavar="N", help=f"{text} (%(default)s)")

    def size(self, name: str, usual: int | None, text: str) -> None:
        """A size in bytes, with a unit or without; the text states its default."""
        self.add(name, type=size, default=usual, metavar="SIZE", help=text)

    def file(self, name: str, text: str) -> None:
        """A path of a file; none by default."""
        self.add(name, type=Path, metavar="FILE", help=text)

    def several(self, name: str, metavar: str, text: str, kind: type = str) -> None:
        """An option that may be given several times."""
        self.add(name, action="append", default=[], type=kind, metavar=metavar, help=f"{text}; repeatable")

    def switch(self, name: str, usual: bool | None, text: str) -> None:
        """An option with a `--no-` form; the text states its default."""
        self.add(name, action=argparse.BooleanOptionalAction, default=usual, help=text)
