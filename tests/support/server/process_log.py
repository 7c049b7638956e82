"""What a process says on its stderr."""

import json
import os
import threading
from typing import Any

from support.peers.shim import PATIENCE


class Log:
    """Everything that a process says on a pipe, read as it comes."""

    def __init__(self, read: int) -> None:
        """Read from this end, until the others are closed."""
        self._read = read
        self._raw = b""
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        with os.fdopen(os.dup(self._read), "rb") as stream:
            self._raw = stream.read()

    def entries(self) -> list[dict[str, Any]]:
        """All lines, once nobody can write any more; each is an object in printable ASCII."""
        return [entry_of(line) for line in self.lines()]

    def lines(self) -> list[str]:
        """All lines as they are."""
        self._thread.join(PATIENCE)
        text = self._raw.decode("ascii")
        assert text.endswith("\n")
        return text.removesuffix("\n").split("\n")


def entry_of(line: str) -> dict[str, Any]:
    """What a line says; it has to be an object in printable ASCII."""
    assert line.isascii()
    assert line.isprintable()
    entry = json.loads(line)
    assert isinstance(entry, dict)
    return entry
