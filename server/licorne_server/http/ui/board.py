"""The board of all viewers: its entries, and their changes since a viewer's last look.

There is one board for all viewers. An entry is written as JSON once, when it changes. A viewer has
one number, the version of the board that it has; so a slow one delays nothing and takes no memory:
it gets the state at its turn.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

Visible = Callable[[str], bool]
"""A test of a viewer's right to see an RM."""

MAX_GONE = 1_000
"""Names of removed entries, retained for viewers that have not seen the removal yet."""

PART = 256
"""Entries that are looked at before the reader may pause."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Key(NamedTuple):
    """Key of an entry: its kind, its RM, its partition and its name."""

    kind: str
    rm: str
    partition: str = ""
    name: str = ""


@dataclass(slots=True)
class _Entry:
    row: dict[str, object]
    version: int
    text: str
    round: int


class Board:
    """Entries by key. The first version is 1; a viewer that has nothing yet has version 0."""

    def __init__(self) -> None:
        """Make an empty board."""
        self.version = 0
        self._round = 0
        self._entries: dict[Key, _Entry] = {}
        # Partitions whose queues are what they were in the round before.
        self._unchanged: set[str] = set()
        # The version at which each entry was removed. A viewer with an older version than `_kept`
        # needs everything anew.
        self._gone: dict[Key, int] = {}
        self._kept = 0
        self._changed = False

    def begin(self) -> None:
        """Begin a round, in which every present entry is put."""
        self._round += 1
        self._unchanged.clear()
        # The first round makes a version even if there is nothing: that is something to tell.
        self._changed = self.version == 0

    def put(self, key: Key, row: dict[str, object]) -> None:
        """Note what an entry is now. It is written as JSON only if it has changed."""
        entry = self._entries.get(key)
        if entry is not None and entry.row == row:
            entry.round = self._round
            return
        self._changed = True
        self._entries[key] = _Entry(row, self.version + 1, _encode(row), self._round)
        self._gone.pop(key, None)

    def keep(self, partition: str) -> None:
        """Keep the queue entries of a partition, which need not be put again."""
        self._unchanged.add(partition)

    def end(self) -> Iterator[None]:
        """End the round: drop entries that were neither put nor kept, and publish changed ones.

        The caller walks through, and may pause at every step.
        """
        lost = False
        for number, (key, entry) in enumerate(tuple(self._entries.items()), 1):
            if entry.round != self._round and key.partition not in self._unchanged:
                lost = True
                del self._entries[key]
                self._gone[key] = self.version + 1
            if not number % PART:
                yield
        while len(self._gone) > MAX_GONE:
            oldest = next(iter(self._gone))
            self._kept = max(self._kept, self._gone.pop(oldest))
        if self._changed or lost:
            self.version += 1

    def since(self, version: int, visible: Visible | None) -> Iterator[str]:
        """Changes since a version, as the members of a JSON object, piece by piece.

        `visible` tests the viewer's rights; None for everything. The changes are those at the time
        of the call, however long the reader takes. It may pause after every piece; an empty piece
        stands for nothing.
        """
        whole = version == 0 or version < self._kept
        gone = () if whole else tuple(self._gone.items())
        return _pieces(tuple(self._entries.items()), gone, (version, self.version, whole), visible)


def _pieces(
    entries: Iterable[tuple[Key, _Entry]],
    gone: Iterable[tuple[Key, int]],
    versions: tuple[int, int, bool],
    visible: Visible | None,
) -> Iterator[str]:
    """The members of the object; `versions` has old, new, and True for all."""
    have, now, whole = versions
    yield f'"version":{now},"whole":{_encode(whole)}'
    lists: dict[str, list[str]] = {}
    for number, (key, entry) in enumerate(entries, 1):
        if (whole or entry.version > have) and (visible is None or visible(key.rm)):
            lists.setdefault(key.kind, []).append(entry.text)
        if not number % PART:
            yield ""
    lists["gone"] = [
        _encode(key) for key, went in gone if went > have and (visible is None or visible(key.rm))
    ]
    for kind, texts in lists.items():
        separator = f',"{kind}":['
        for text in texts:
            yield separator + text
            separator = ","
        if texts:
            yield "]"
