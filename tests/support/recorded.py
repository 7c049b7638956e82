"""The recorded output of an interface: the files in ``data/recorded``.

A difference is either a fault, or an intended change: ``pytest --rewrite`` records it.

A scene is a file whose lines with a mark, such as ``$``, are played in their order on the place that its
first line names. A line with ``##`` says what those below it promise; all others are what was answered.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

PROMISE = "## "
ON = "## on: "
FOLDER = Path(__file__).parent.parent / "data" / "recorded"
WIDTH = 110
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def compare(name: str, said: Iterable[str], *, rewrite: bool) -> None:
    """Compare lines with a file, or write them there. The identity of a log differs each time."""
    file, found = FOLDER / f"{name}.txt", UUID.sub("UUID", "\n".join((*said, "")))
    if rewrite:
        file.write_text(found, encoding="utf-8")
    recorded = file.read_text(encoding="utf-8").splitlines()
    difference = list(unified_diff(recorded, found.splitlines(), "recorded", "said", lineterm=""))
    if difference:
        pytest.fail("\n".join([*difference, "if that is wanted: pytest --rewrite"]), pytrace=False)


def compact(value: Any, indent: str = "") -> str:
    """JSON in the order of keys, with a line for each value that fits into one."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        inside = [f"{json.dumps(key)}: {compact(item, deeper)}" for key, item in sorted(value.items())]
    else:
        inside = [compact(item, deeper) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(deeper + item for item in inside)
    return f"{first}\n{lines}\n{indent}{last}"


class Scene:
    """A file of ``data/recorded/KIND``, without what was answered."""

    def __init__(self, kind: str, name: str, *marks: str) -> None:
        """Read it."""
        self.path = f"{kind}/{name}"
        text = (FOLDER / f"{self.path}.txt").read_text(encoding="utf-8")
        first, *self.lines = [one for one in text.splitlines() if one.startswith((*marks, PROMISE))]
        self.place = first.removeprefix(ON)
        self.played = [line for line in self.lines if not line.startswith(PROMISE)]

    async def replay(self, play: Callable[[str], Awaitable[Iterable[str]]], *, rewrite: bool) -> None:
        """Play each line, and compare what is answered."""
        said = [f"{ON}{self.place}"]
        for line in self.lines:
            said += [*([] if said[-1].startswith(PROMISE) else [""]), line]
            if not line.startswith(PROMISE):
                said += await play(line)
        compare(self.path, said, rewrite=rewrite)


def scenes(kind: str, *marks: str) -> list[Scene]:
    """All scenes of a kind."""
    return [Scene(kind, path.stem, *marks) for path in sorted((FOLDER / kind).glob("*.txt"))]
