"""Configurations in force and earlier ones, for connected and disconnected RMs; and their storage.

The storage writes in one thread, in order of the requests, never in the event loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import structlog

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration
from licorne_core.messages.operators import Marks
from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.store.configurations.log_levels import StoredLevels
from licorne_server.store.configurations.marks import MAX_MARKS, Mark
from licorne_server.store.configurations.revisions import APPLIED, Revision, Revisions, Source
from licorne_server.store.configurations.state_dir import StateDir
from licorne_server.store.coordination.store import Document
from licorne_server.wire.responses import nanoseconds

if TYPE_CHECKING:
    from licorne_server.store.configurations.default_file import Default

T = TypeVar("T")

keeper_log = structlog.get_logger("core.configurations.keeper")


class Keeper:
    """The only writer of the state directory. Without a directory nothing is stored."""

    failures: int
    """Failed writes since the start."""

    def __init__(self, folder: Path | None = None) -> None:
        """Store revisions in the folder; nothing is read or written before `open`."""
        self.failures = 0
        self._dir = None if folder is None else StateDir(folder)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        # Revisions of each RM in storage after all pending writes.
        self._latest: dict[RmId, Revisions] = {}
        # Documents, if nothing is stored.
        self._documents: dict[str, Document] = {}

    @property
    def persistent(self) -> bool:
        """True if revisions are stored."""
        return self._dir is not None

    def open(self) -> list[Revisions]:
        """Lock the directory for this process; returns its revisions.

        Raises:
            SettingsError: another server has the directory, or its content is unusable.
        """
        found = [] if self._dir is None else self._dir.open()
        self._latest = {revisions.rm_id: revisions for revisions in found}
        return found

    async def fetch(self, rm_id: RmId) -> Revisions | None:
        """Revisions that another server has stored for an RM that this one serves from now on.

        None for those that are known here already.
        """
        return None

    async def prepare(self, revisions: Revisions) -> None:
        """Write the data for `commit`, which then needs no more room on the disk.

        Raises:
            OSError: the data cannot be written; the stored revisions stay.
        """
        if self._dir is not None:
            try:
                await self._run(partial(self._dir.prepare, revisions))
            except OSError:
                self.failures += 1
                raise

    async def commit(self, revisions: Revisions) -> bool:
        """Replace the stored revisions by the prepared ones; returns True if they are stored."""
        if self._dir is None:
            return False
        self._latest[revisions.rm_id] = revisions
        try:
            await self._run(partial(self._dir.commit, revisions))
        except OSError as error:
            self._failed(revisions.rm_id, error)
            return False
        return True

    @property
    def shared(self) -> bool:
        """True if servers with files of their own have the same documents."""
        return False

    async def document(self, key: str) -> Document:
        """A document that is no RM's.

        Raises:
            OSError: the directory cannot be read.
            StoreError: the store does not answer.
        """
        if self._dir is None:
            return self._documents.get(key, Document())
        return await self._run(partial(self._dir.document, key))

    async def replace_document(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace the document of that revision, 0 for none; returns the new one. None deletes it.

        Raises:
            OSError: the directory cannot be written.
            StoreError: the store does not answer.
            Conflict: the document has another revision.
            ValueError: it is too large.
        """
        new = Document() if value is None else Document(value=value, revision=revision + 1)
        if self._dir is None:
            self._documents[key] = new
        else:
            await self._run(partial(self._dir.write_document, key, new if new.revision else None))
        return new.revision

    def discard(self, rm_id: RmId) -> None:
        """Discard the prepared revisions."""
        if self._dir is not None:
            self._begin(rm_id, partial(self._dir.discard, rm_id))

    def save(self, revisions: Revisions) -> None:
        """Store the revisions as soon as possible; a failure is logged."""
        rm_id = revisions.rm_id
        if self._dir is not None and self._latest.get(rm_id) is not revisions:
            self._latest[rm_id] = revisions
            self._begin(rm_id, partial(self._dir.write, revisions))

    def drop(self, rm_id: RmId) -> None:
        """Delete the stored revisions of the RM."""
        if self._dir is not None:
            self._latest.pop(rm_id, None)
            self._begin(rm_id, partial(self._dir.drop, rm_id))

    async def written(self, rm_id: RmId) -> None:
        """Wait until the writes of the RM that were begun before have ended, well or not.

        What an operator is then told to be done survives the server, and is known to the RM's next owner,
        unless the write has failed, which is logged and counted.
        """
        if self._dir is not None:
            await self._run(_nothing)

    async def close(self) -> None:
        """Finish all writes, and unlock the directory."""
        if self._dir is not None:
            await asyncio.to_thread(self._thread.shutdown)
            self._dir.close()

    def _run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Do the work in the thread, after all earlier work."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _begin(self, rm_id: RmId, work: Callable[[], None]) -> None:
        """Do the work in the thread, after all earlier work; a failure is logged."""

        def ended(future: "asyncio.Future[None]") -> None:
            error = future.exception()
            if isinstance(error, OSError):
                self._failed(rm_id, error)
            elif error is not None:
                keeper_log.error("configuration not stored", rm_id=rm_id, exc_info=error)

        self._run(work).add_done_callback(ended)

    def _failed(self, rm_id: RmId, error: OSError) -> None:
        self.failures += 1
        self._latest.pop(rm_id, None)
        keeper_log.error("configuration not stored", rm_id=rm_id, reason=str(error))


def _nothing() -> None:
    """The last of the work that is waited for."""


log = structlog.get_logger("core.configurations.history")

MAX_GONE = 1_024
"""Unregistered RMs whose revisions are retained, at most: as many as there may be RMs."""

MAX_GONE_BYTES = 64 * 1024 * 1024
"""Bytes of texts of these RMs, at most."""


class Unusable(NamedTuple):
    """An applied revision that has become unusable, with the reason."""

    number: int
    why: str


class Configurations:
    """Revisions of all RMs.

    A change of an RM's configuration is announced by `expecting`. The new revision counts once it is
    in force in the core. So a reader never sees a revision whose text is not in force.
    """

    default: "Default"
    """Configuration of RMs that register without one."""
    keeper: Keeper
    """Storage of revisions that survive the process."""
    log_levels: StoredLevels

    def __init__(self, default: "Default", keeper: Keeper, clock: Clock) -> None:
        """Start without RMs; `start` loads stored revisions."""
        self.default = default
        self.keeper = keeper
        self.log_levels = StoredLevels(keeper)
        self.on_forget: Callable[[RmId], None] = lambda _: None  # nothing is kept of the RM any more
        self._clock = clock
        self._of: dict[RmId, Revisions] = {}
        self._expected: dict[RmId, Revisions] = {}
        # Unregistered RMs, the longest unregistered first.
        self._gone: dict[RmId, None] = {}

    def start(self) -> None:
        """Load stored revisions of earlier servers.

        Raises:
            SettingsError: stored revisions are unusable.
        """
        for revisions in self.keeper.open():
            self._of[revisions.rm_id] = revisions
            self._gone[revisions.rm_id] = None
        self._drop_excess()

    async def stop(self) -> None:
        """Finish all writes. No configuration comes into force any more."""
        await self.keeper.close()

    def find(self, rm_id: str) -> Revisions | None:
        """Revisions of an RM, registered or not; None if unknown."""
        return self._of.get(RmId(rm_id))

    def get(self, rm_id: str) -> Revisions:
        """Revisions of a known RM, registered or not."""
        return self._of[RmId(rm_id)]

    async def fetch(self, rm_id: RmId) -> None:
        """Take over the revisions of an RM that this server serves from now on.

        The caller holds the RM's lock.

        Raises:
            StoreError: they cannot be read now.
        """
        found = await self.keeper.fetch(rm_id)
        if found is not None:
            self.put(found)
            self.gone(rm_id)

    def goes_on(self, rm_id: RmId, text: str) -> Revision | None:
        """Applied revision that stays in force if the RM registers with the text; None for none."""
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

        `text` and `extra` are the RM's own; `config` is the configuration that it registers with. An
        applied configuration stays in force, unless it is `unusable`: then the RM's own comes into
        force instead, and the new revision records the replacement.
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
        """Revisions after a change to the configuration, with an extra one unless `extra` is empty.

        Without a difference there is no new revision. Applying the configuration in force makes a
        difference: it then stays in force whatever the RM sends later.
        """
        current = before.current
        extra = extra or current.extra
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
        """Note that the announced revisions of the RM are in force in the core."""
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
        """Note and store what an operator did in a registered RM; the caller holds the RM's lock."""
        self.put(self._of[rm_id].marking(mark, on=on))
        self.save(rm_id)

    def marks_of(self, rm_id: RmId) -> Marks:
        """Marks of operators that a registration of the RM takes over."""
        revisions = self._of.get(rm_id)
        return {} if revisions is None else revisions.operator_marks

    def has_room_for_mark(self, rm_id: RmId) -> bool:
        """True if one more mark of the RM may be noted."""
        return len(self._of[rm_id].marks) < MAX_MARKS

    def save(self, rm_id: RmId) -> None:
        """Store the RM's revisions as soon as possible, if there are any."""
        if rm_id in self._of:
            self.keeper.save(self._of[rm_id])

    def gone(self, rm_id: RmId) -> None:
        """Note that the RM is no longer registered. Its revisions are retained for its return."""
        if rm_id in self._of:
            # The RM changed last is dropped last.
            self._gone.pop(rm_id, None)
            self._gone[rm_id] = None
            self._drop_excess()

    def forget(self, rm_id: RmId) -> None:
        """Delete the RM's revisions, on an operator's request."""
        self._gone.pop(rm_id, None)
        if self._of.pop(rm_id, None) is not None:
            self.keeper.drop(rm_id)
            self.on_forget(rm_id)

    def _drop_excess(self) -> None:
        """Drop revisions of unregistered RMs above the bounds, RMs without an applied one first."""
        size = sum(self._of[rm_id].size for rm_id in self._gone)
        order = sorted(self._gone, key=lambda rm_id: self._of[rm_id].is_applied)
        for rm_id in order:
            if len(self._gone) <= MAX_GONE and size <= MAX_GONE_BYTES:
                return
            size -= self._of[rm_id].size
            if self._of[rm_id].is_applied:
                log.warning("applied configuration of an RM that is gone dropped", rm_id=rm_id)
            self.forget(rm_id)
