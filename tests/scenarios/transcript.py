"""The form of a scenario file: commands, each followed by the expected output.

    # A comment is kept unchanged.

    verb word setting=value
      indented text, if the verb takes one
    ----
    one line for each effect

The first comment says ``# rows:`` with the acceptance rows that the file covers, if any, and ``# spec:`` with
the sections of the specification that it shows, and ``# extensions:`` with those of `licorne_core/extensions`
without which it cannot be played. A blank line ends the output. Run with ``--rewrite`` to record the output
anew, and review the difference.
"""

import re
from dataclasses import dataclass
from pathlib import Path

RULE = "----"


@dataclass
class Block:
    """A comment (`command` is empty), or a command with its text and its expected output."""

    command: str = ""
    text: str = ""
    expected: str = ""
    comment: str = ""

    def render(self, printed: str) -> str:
        """The block in the form of the file, with the actual output."""
        if not self.command:
            return self.comment
        body = [self.command, *(f"  {line}".rstrip() for line in self.text.splitlines())]
        return "\n".join([*body, RULE, printed])


def rows_of(path: Path) -> list[int]:
    """The acceptance rows that the file names in a comment."""
    return [*map(int, _listed("rows", path))]


def sections_of(path: Path) -> list[int]:
    """The sections of the specification that the file declares."""
    return [*map(int, _listed("spec", path))]


def extensions_of(path: Path) -> list[str]:
    """The extensions that the file declares."""
    return _listed("extensions", path)


def _listed(what: str, path: Path) -> list[str]:
    found = re.search(rf"^# {what}: ([\w, ]+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].replace(",", " ").split() if found else []


def read(path: Path) -> list[Block]:
    """The blocks of a file."""
    parts = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [_block(part.strip("\n")) for part in parts]


def _block(part: str) -> Block:
    if part.startswith("#"):
        return Block(comment=part)
    head, rule, expected = part.partition(f"\n{RULE}")
    assert rule, f"no {RULE} after: {head}"
    command, _, text = head.partition("\n")
    plain = "\n".join(line.removeprefix("  ") for line in text.splitlines())
    return Block(command=command, text=plain, expected=expected.strip("\n"))
