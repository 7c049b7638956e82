"""Log levels set by operators, with author and reason; they outlive the server if documents are stored."""

import json

import structlog

from licorne_core.messages.operators import OperatorMark
from licorne_server.store.documents.documents import SHARED, Document, Documents, StoreError
from licorne_server.telemetry.logs import levels

log = structlog.get_logger("core.configurations.log_levels")

KEY = f"{SHARED}log-levels"
"""Key of the document."""


class StoredLevels:
    """The log levels that operators have set, in force in this process, and their document."""

    marks: dict[str, OperatorMark]
    """The last change of each level, by logger; the empty name stands for all others."""

    def __init__(self, documents: Documents) -> None:
        """Read nothing before `start`."""
        self.marks = {}
        self._documents = documents

    async def start(self) -> None:
        """Put the stored levels into force; a failure is logged, and the server starts without them."""
        try:
            stored = _decode(await self._documents.read(KEY))
        except (StoreError, ValueError) as error:
            log.warning("stored log levels not read", reason=str(error))
            return
        for name, (level, mark) in stored.items():
            if level and levels().problem(name, level) is None:
                levels().set(name, level)
                self.marks[name] = mark

    async def set(self, name: str, level: str, mark: OperatorMark) -> None:
        """Set or clear a level, which is valid, and store it; a failure to store is logged."""
        levels().set(name, level)
        self.marks.pop(name, None)
        if level:
            self.marks[name] = mark

        def change(document: Document) -> bytes | None:
            others = {other: value for other, value in _decode(document).items() if other != name}
            return _encode({**others, name: (level, mark)} if level else others)

        try:
            await self._documents.update(KEY, change)
        except (StoreError, ValueError) as error:
            log.error("log level not stored", logger_name=name, reason=str(error))


def _encode(stored: dict[str, tuple[str, OperatorMark]]) -> bytes:
    rows = {
        name: {"level": level, "by": mark.by, "time": mark.time, "message": mark.message}
        for name, (level, mark) in stored.items()
    }
    return json.dumps(rows).encode()


def _decode(document: Document) -> dict[str, tuple[str, OperatorMark]]:
    """Parse the levels in a document.

    Raises:
        ValueError: the document holds no levels.
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
