"""Current and earlier configurations of registered and unregistered RMs; and operators' log levels.

Levels have an author and a reason, and outlive the server if documents are stored.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration
from licorne_core.messages.operators import Marks, OperatorMark
from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.store.configurations.revisions import (
    APPLIED,
    MAX_MARKS,
    Mark,
    Revision,
    Revisions,
    RevisionsForm,
    Source,
)
from licorne_server.store.documents.documents import SHARED, Document, Documents, StoreError
from licorne_server.store.documents.encoding import Unreadable, decode, encode
from licorne_server.store.documents.owned import Damaged, Owned
from licorne_server.telemetry.logs import levels
from licorne_server.wire.responses import nanoseconds

levels_log = structlog.get_logger("core.configurations.log_levels")

LEVELS_KEY = f"{SHARED}log-levels"
"""Key of the document of log levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLevel:
    """A level that an operator has set, with author, time and reason."""

    level: str
    by: str
    time: float
    message: str


class StoredLevels:
    """The log levels that operators have set, which are in force in this process, and their document."""

    marks: dict[str, OperatorMark]
    """The last change of each level, by logger; the empty name stands for all other loggers."""

    def __init__(self, documents: Documents) -> None:
        """Create the levels; `start` reads the document."""
        self.marks = {}
        self._documents = documents

    async def start(self) -> None:
        """Put the stored levels into force; a failure is logged, and the server starts without them."""
        try:
            stored = _levels_in(await self._documents.read(LEVELS_KEY))
        except (StoreError, Unreadable) as error:
            levels_log.warning("stored log levels not read", reason=str(error))
            return
        for name, one in stored.items():
            if one.level and levels().problem(name, one.level) is None:
                levels().set(name, one.level)
                self.marks[name] = OperatorMark(by=one.by, time=one.time, message=one.message)

    async def set(self, name: str, level: str, mark: OperatorMark) -> None:
        """Set or clear a valid level, and store the change; a failure to store it is logged."""
        levels().set(name, level)
        self.marks.pop(name, None)
        if level:
            self.marks[name] = mark

        def change(document: Document) -> bytes | None:
            stored = _levels_in(document)
            stored.pop(name, None)
            if level:
                stored[name] = StoredLevel(level=level, by=mark.by, time=mark.time, message=mark.message)
            return encode(stored)

        try:
            await self._documents.update(LEVELS_KEY, change)
        except (StoreError, Unreadable) as error:
            levels_log.error("log level not stored", logger_name=name, reason=str(error))


def _levels_in(document: Document) -> dict[str, StoredLevel]:
    """The levels in a document; raises Unreadable for an invalid one."""
    return decode(document.value, dict[str, StoredLevel]) if document.revision else {}


if TYPE_CHECKING:
    from licorne_server.store.configurations.default_file import Default

log = structlog.get_logger("core.configurations.history")

MAX_GONE = 1_024
"""Maximum number of unregistered RMs whose revisions are retained: the bound on RMs."""

MAX_GONE_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of the texts of these RMs."""


class Unusable(NamedTuple):
    """An applied revision that has become unusable, with the reason."""

    number: int
    why: str


class Configurations:
    """Revisions of all RMs.

    A change of an RM's configuration is announced by `expecting`. The new revision is listed once it is in
    force in the core, so a reader never sees a revision whose text is not in force.
    """

    default: "Default"
    """Configuration of RMs that register without one."""
    documents: Documents
    """All documents of the server."""
    stored: Owned[Revisions]
    """The documents of the revisions."""
    log_levels: StoredLevels

    def __init__(
        self, default: "Default", documents: Documents, clock: Clock, epoch: Callable[[RmId], int]
    ) -> None:
        """Start without RMs; `start` loads stored revisions.

        `epoch` returns the epoch of an RM that is served here, or 0.
        """
        self.default = default
        self.documents = documents
        self.stored = Owned(documents, RevisionsForm(), epoch)
        self.log_levels = StoredLevels(documents)
        self.on_forget: Callable[[RmId], None] = lambda _: None  # all state of the RM was dropped
        self._clock = clock
        self._of: dict[RmId, Revisions] = {}
        self._expected: dict[RmId, Revisions] = {}
        # Unregistered RMs, in the order in which they left.
        self._gone: dict[RmId, None] = {}

    def start(self) -> None:
        """Load stored revisions of earlier servers.

        Raises:
            SettingsError: stored revisions are unusable.
        """
        self._of = dict(self.stored.found())
        self._gone = dict.fromkeys(self._of)
        self._drop_excess()

    async def stop(self) -> None:
        """Complete all writes. No configuration may come into force afterwards."""
        await self.stored.close()

    def find(self, rm_id: str) -> Revisions | None:
        """Revisions of an RM, registered or not; None if unknown."""
        return self._of.get(RmId(rm_id))

    def get(self, rm_id: str) -> Revisions:
        """Revisions of an RM, registered or not."""
        return self._of[RmId(rm_id)]

    async def fetch(self, rm_id: RmId) -> None:
        """Load the stored revisions of an RM that this server serves from now on.

        The caller holds the RM's lock.

        Raises:
            StoreError: the store does not answer.
        """
        if self.documents.exclusive:
            return  # loaded at the start, and perhaps newer than those on a disk that refuses writes
        try:
            found = await self.stored.fetch(rm_id)
        except Damaged as error:
            log.error("stored revisions are damaged", rm_id=rm_id, reason=str(error))
            return
        if found is not None:
            self.put(found)
            self.gone(rm_id)

    def goes_on(self, rm_id: RmId, text: str) -> Revision | None:
        """The applied revision that remains in force if the RM registers with this text, if any."""
        revisions = self._of.get(rm_id)
        return revisions.current if revisions is not None and revisions.goes_on(text) else None

    def after_registration(
        self,
        rm_id: RmId,
        text: str,
        config: SubmittedConfig,
        by: str,
        extra: str = "",
        unusable: Unusable | None = None,
    ) -> Revisions | None:
        """Revisions after a registration of the RM; None if the configuration is unusable.

        `text` and `extra` are the RM's own; `config` is the parsed configuration for its registration. An
        applied configuration stays in force, unless it is `unusable`: then the RM's own configuration comes
        into force, and the new revision records the replacement.
        """
        before = self._of.get(rm_id) or Revisions(rm_id=rm_id)
        if not isinstance(config, Configuration):
            return None
        if unusable is None and before.goes_on(text):
            after = before
            if before.extra_after(extra) != before.current.extra:
                current = before.current
                why = f"revision {current.number}, with another extra configuration of the RM"
                after = self._adding(before, config, current.source, by=current.by, comment=why, extra=extra)
            return after.saying(text, extra)
        source = Source.REGISTRATION if text else self.default.source
        by = by if text else ""
        if unusable is not None:
            number, why = unusable
            comment = f"revision {number} cannot be used: {why}"
            after = self._adding(
                before, config, source, by=by, comment=comment, extra=extra, instead_of=number
            )
        elif before.kept and (before.current.checksum, before.current.source, extra) == (
            config.checksum,
            source,
            before.current.extra,
        ):
            after = before
        else:
            after = self._adding(before, config, source, by=by, extra=extra)
        return after.saying(text, extra)

    def after_change(
        self,
        before: Revisions,
        config: Configuration,
        source: Source,
        *,
        by: str,
        comment: str = "",
        extra: str = "",
    ) -> Revisions:
        """Revisions after a change to the configuration.

        An empty `extra` does not change the extra configuration, except in a rollback, which restores it.
        Without a difference there is no new revision. Applying the configuration in force counts as a
        difference, because it then remains in force whatever the RM sends later.
        """
        current = before.current
        if not extra and source is not Source.ROLLBACK:
            extra = current.extra
        is_pinned = source in APPLIED and not before.is_applied
        if (current.checksum, current.extra) == (config.checksum, extra) and not is_pinned:
            return before
        return self._adding(before, config, source, by=by, comment=comment, extra=extra)

    def _adding(self, before: Revisions, config: Configuration, source: Source, **about: Any) -> Revisions:
        time = nanoseconds(self._clock.now())
        return before.adding(config, source, time=time, **about)

    @contextmanager
    def expecting(self, revisions: Revisions | None) -> Iterator[None]:
        """Announce revisions that come into force with the core's next configuration of the RM.

        The caller holds the RM's lock.
        """
        if revisions is None:
            yield
            return
        self._expected[revisions.rm_id] = revisions
        try:
            yield
        finally:
            self._expected.pop(revisions.rm_id, None)

    def in_force(self, rm_id: RmId) -> None:
        """Record that the announced revisions of the RM are in force in the core."""
        expected = self._expected.pop(rm_id, None)
        if expected is not None:
            self._gone.pop(rm_id, None)
            self.put(expected.marked_as(self._of.get(rm_id)))

    def put(self, revisions: Revisions) -> None:
        """Set the revisions of the RM."""
        self._of[revisions.rm_id] = revisions
        if revisions.rm_id in self._gone:
            self.gone(revisions.rm_id)

    def mark(self, rm_id: RmId, mark: Mark, *, on: bool) -> None:
        """Record and store an operator's mark in a registered RM; the caller holds the RM's lock."""
        self.put(self._of[rm_id].marking(mark, on=on))
        self.save(rm_id)

    def marks_of(self, rm_id: RmId) -> Marks:
        """Operators' marks with which a new registration of the RM starts."""
        revisions = self._of.get(rm_id)
        return {} if revisions is None else revisions.operator_marks

    def has_room_for_mark(self, rm_id: RmId) -> bool:
        """True if one more mark of the RM may be stored."""
        return len(self._of[rm_id].marks) < MAX_MARKS

    def save(self, rm_id: RmId) -> None:
        """Store the RM's revisions as soon as possible, if there are any."""
        if rm_id in self._of and self.documents.are_read_again:
            self.stored.save(rm_id, self._of[rm_id])

    def gone(self, rm_id: RmId) -> None:
        """Record that the RM is no longer registered. Its revisions are retained for its return."""
        if rm_id in self._of:
            # The RM that was changed last is last in the dictionary, and is dropped last.
            self._gone.pop(rm_id, None)
            self._gone[rm_id] = None
            self._drop_excess()

    def forget(self, rm_id: RmId) -> None:
        """Delete the RM's revisions, on an operator's request."""
        self._gone.pop(rm_id, None)
        if self._of.pop(rm_id, None) is not None:
            self.stored.drop(rm_id)
            self.on_forget(rm_id)

    def _drop_excess(self) -> None:
        """Drop revisions of unregistered RMs above the bounds; RMs without an applied revision are first."""
        size = sum(self._of[rm_id].size for rm_id in self._gone)
        order = sorted(self._gone, key=lambda rm_id: self._of[rm_id].is_applied)
        for rm_id in order:
            if len(self._gone) <= MAX_GONE and size <= MAX_GONE_BYTES:
                return
            size -= self._of[rm_id].size
            if self._of[rm_id].is_applied:
                log.warning("applied configuration of an RM that is gone dropped", rm_id=rm_id)
            self.forget(rm_id)
