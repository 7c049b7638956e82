"""The recorded output of an interface: the files in ``data/recorded``.

A difference is a fault or an intended change; ``pytest --rewrite`` records it.

A scene is a file. Its first line names a place, on which the lines with a mark, such as ``$``, are played in
order. A line with ``##`` states the promise of the lines below it; all other lines are answers.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import unified_diff
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

PROMISE = "## "
ON = "## on: "
FOLDER = Path(__file__).parent.parent / "data" / "recorded"
WIDTH, WIDTH_OF_ROWS = 110, 160
LONG = 400
"""The number of characters from which a repeated answer, or a part of one, is replaced by a reference."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def compare(name: str, said: Iterable[str], *, rewrite: bool) -> None:
    """Compare lines with a file, or write them there. UUIDs are replaced, as they differ each time."""
    file, found = FOLDER / f"{name}.txt", UUID.sub("UUID", "\n".join((*said, "")))
    if rewrite:
        file.write_text(found, encoding="utf-8")
    recorded = file.read_text(encoding="utf-8").splitlines()
    difference = list(unified_diff(recorded, found.splitlines(), "recorded", "said", lineterm=""))
    if difference:
        pytest.fail("\n".join([*difference, "if that is wanted: pytest --rewrite"]), pytrace=False)


class Answers:
    """JSON with sorted keys, and a line for each value that fits into one.

    Records become a table below their keys, keys with the same empty value are listed together, equal
    neighbours in a list are counted, and a value of an earlier answer is replaced by the line that gave it
    first, with its place there.
    """

    def __init__(self) -> None:
        """Start without answers."""
        self._places: dict[str, str] = {}
        self._lines_told: set[str] = set()
        self._shown: list[tuple[str, str]] = []

    def show(self, value: Any) -> list[str]:
        """The lines of a value."""
        return self._lines(value, "", "").splitlines()

    def told(self, line: str) -> None:
        """End the answer to this line, so that later answers can refer to it."""
        for text, place in self._shown if line not in self._lines_told else ():
            self._places.setdefault(text, f"{line}{place}")
        self._lines_told.add(line)
        self._shown.clear()

    def _lines(self, value: Any, indent: str, place: str) -> str:
        line = json.dumps(value, ensure_ascii=False, sort_keys=True)
        if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
            return line
        if len(line) >= LONG:
            if line in self._places:
                return f"as in {self._places[line]}"
            self._shown.append((line, place))
        deeper = indent + " "
        if isinstance(value, dict):
            first, last = "{", "}"
            empty, rest = empty_ones(value)
            inside = [f"{shown}: {', '.join(keys)}" for shown, keys in sorted(empty.items())]
            inside += [
                f"{json.dumps(key)}: {self._lines(item, deeper, f'{place} {key}')}"
                for key, item in sorted(rest.items())
            ]
        elif (keys := keys_of(value)) and max(map(len, rows := rows_of(value, keys))) <= WIDTH_OF_ROWS:
            return "\n".join([f"[{{{', '.join(keys)}}},", *(deeper + row for row in rows), f"{indent}]"])
        else:
            first, last = "[", "]"
            inside = [
                self._lines(item, deeper, f"{place} {at}") + (f" ({count} times)" if count > 1 else "")
                for at, (item, count) in enumerate(runs(value))
            ]
        lines = ",\n".join(deeper + item for item in inside)
        return f"{first}\n{lines}\n{indent}{last}"


def empty_ones(value: dict[str, Any]) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The keys of each empty value that several keys share, and the other items."""
    empty: dict[str, list[str]] = {}
    for key, item in sorted(value.items()):
        if not item:
            empty.setdefault(json.dumps(item), []).append(key)
    several = {shown: keys for shown, keys in empty.items() if len(keys) > 1}
    left_out = {key for keys in several.values() for key in keys}
    return several, {key: item for key, item in value.items() if key not in left_out}


def keys_of(values: list[Any]) -> list[str]:
    """The keys of records, if all values have most of these keys; otherwise none."""
    if len(values) < 2 or not all(isinstance(one, dict) for one in values):
        return []
    keys = sorted(set[str]().union(*values))
    return keys if all(2 * len(one) >= len(keys) for one in values) else []


def rows_of(records: list[dict[str, Any]], keys: list[str]) -> list[str]:
    """The values of each record, in the order of the keys."""
    return [
        ", ".join(
            json.dumps(one[key], ensure_ascii=False, sort_keys=True) if key in one else "-" for key in keys
        )
        for one in records
    ]


def runs(values: list[Any]) -> list[tuple[Any, int]]:
    """Each value with the number of equal neighbours."""
    return [(one, len(list(equal))) for one, equal in groupby(values)]


class Scene:
    """A file of ``data/recorded/KIND``, without the answers."""

    def __init__(self, kind: str, name: str, *marks: str) -> None:
        """Read the file."""
        self.path = f"{kind}/{name}"
        text = (FOLDER / f"{self.path}.txt").read_text(encoding="utf-8")
        first, *self.lines = [one for one in text.splitlines() if one.startswith((*marks, PROMISE))]
        self.place = first.removeprefix(ON)
        self.played = [line for line in self.lines if not line.startswith(PROMISE)]
        self.answers = Answers()

    async def replay(self, play: Callable[[str], Awaitable[Iterable[str]]], *, rewrite: bool) -> None:
        """Play each line, and compare the answers."""
        said = [f"{ON}{self.place}"]
        for line in self.lines:
            said += [*([] if said[-1].startswith(PROMISE) else [""]), line]
            if not line.startswith(PROMISE):
                said += await play(line)
                self.answers.told(line)
        compare(self.path, said, rewrite=rewrite)


def scenes(kind: str, *marks: str) -> list[Scene]:
    """All scenes of a kind."""
    return [Scene(kind, path.stem, *marks) for path in sorted((FOLDER / kind).glob("*.txt"))]
