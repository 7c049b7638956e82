"""Levels that operators set, with who did and why: they outlive the server where documents are stored."""

import json
from typing import TYPE_CHECKING

import structlog

from licorne_core.messages.operators import OperatorMark
from licorne_server.store.coordination.store import SHARED, Conflict, Document, StoreError
from licorne_server.telemetry.logs import levels

if TYPE_CHECKING:
    from licorne_server.store.configurations.history import Keeper

log = structlog.get_logger("core.configurations.keeper")

KEY = f"{SHARED}log-levels"
"""Key of the document."""

TRIES = 8
"""Attempts to store a level while other members store theirs, at most."""


class StoredLevels:
    """The levels that operators set, in force in this process, and their document."""

    marks: dict[str, OperatorMark]
    """The last change of each level, by logger; the empty name stands for all others."""

    def __init__(self, keeper: "Keeper") -> None:
        """Nothing is read before `start`."""
        self.marks = {}
        self._keeper = keeper

    async def start(self) -> None:
        """Put the stored levels into force; a failure is logged, and the server starts without them."""
        try:
            stored = _decode(await self._keeper.document(KEY))
        except (OSError, StoreError, ValueError) as error:
            log.warning("stored log levels not read", reason=str(error))
            return
        for name, (level, mark) in stored.items():
            if level and levels().problem(name, level) is None:
                levels().set(name, level)
                self.marks[name] = mark

    async def set(self, name: str, level: str, mark: OperatorMark) -> None:
        """Set or clear a level without a problem, and store it; a failure is logged."""
        levels().set(name, level)
        self.marks.pop(name, None)
        if level:
            self.marks[name] = mark
        try:
            await self._store(name, level, mark)
        except (OSError, StoreError, ValueError) as error:
            log.error("log level not stored", logger_name=name, reason=str(error))

    async def _store(self, name: str, level: str, mark: OperatorMark) -> None:
        for attempt in range(1, TRIES + 1):
            document = await self._keeper.document(KEY)
            others = {other: value for other, value in _decode(document).items() if other != name}
            value = _encode({**others, name: (level, mark)} if level else others)
            try:
                await self._keeper.replace_document(KEY, value, document.revision)
            except Conflict:
                if attempt == TRIES:
                    raise
            else:
                return


def _encode(stored: dict[str, tuple[str, OperatorMark]]) -> bytes:
    rows = {
        name: {"level": level, "by": mark.by, "time": mark.time, "message": mark.message}
        for name, (level, mark) in stored.items()
    }
    return json.dumps(rows).encode()


def _decode(document: Document) -> dict[str, tuple[str, OperatorMark]]:
    """The levels in a document.

    Raises:
        ValueError: there are none in it.
    """
    if not document.revision:
        return {}
    try:
        return {
            str(name): (
                str(row["level"]),
                OperatorMark(by=str(row["by"]), time=float(row["time"]), message=str(row["message"])),
            )
            for name, row in json.loads(document.value).items()
        }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
