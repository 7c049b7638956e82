"""Worlds as their commands: recorded with all extensions, and played again without some.

As a program it plays worlds again, each given as a line of base64 on stdin, until `ENOUGH` of them were
decided alike: ``python replayed.py ENOUGH``. It prints the numbers of worlds played and of those decided
alike. It is run by its path, because its package needs all extensions.
"""

import base64
import hashlib
import pickle
import sys
from collections.abc import Iterable, Iterator

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler

Played = list[tuple[Command, float]]
"""Commands with their times in Unix seconds."""


class Recorder(Scheduler):
    """A core that records its commands, and a digest of its effects."""

    def __init__(self) -> None:
        """Use the core of a test."""
        super().__init__()
        self.played: Played = []
        self.sum = hashlib.sha256()

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Process and record the command."""
        self.played.append((command, now))
        effects = super().handle(command, now)
        self.sum.update(repr(effects).encode())
        return effects

    def line(self) -> bytes:
        """All commands as one line of text."""
        return base64.b64encode(pickle.dumps((self.played, self.sum.digest())))


def played_again(line: bytes) -> bool | None:
    """True if the world is decided as recorded; None if it has commands of a missing extension."""
    try:
        played, right = pickle.loads(base64.b64decode(line))
    except ImportError:
        return None
    core = Recorder()
    try:
        for command, now in played:
            core.handle(command, now)
    except Exception:
        # For example, an unknown key, or a decision that depends on a missing extension.
        return False
    return bool(core.sum.digest() == right)


def until_enough(lines: Iterable[bytes], enough: int) -> Iterator[bool]:
    """Play worlds again until `enough` were decided as recorded."""
    for line in lines:
        found = played_again(line)
        if found is not None:
            yield found
        enough -= bool(found)
        if not enough:
            return


if __name__ == "__main__":
    found = list(until_enough(sys.stdin.buffer, int(sys.argv[1])))
    print(len(found), sum(found))
