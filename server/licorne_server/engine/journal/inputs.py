"""The wrapper of the core that records its commands and times while a journal is written."""

from collections import deque
from threading import Lock

from licorne_core.messages.commands import Command, OfNoRm
from licorne_core.messages.effects import Effect, TickFailed, Unfinished
from licorne_core.messages.reports import Turn
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Core
from licorne_server.engine.journal.codec import entry
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.records import Digest
from licorne_server.engine.journal.table import Again
from licorne_server.engine.journal.writer import Writer

DIGEST_SECONDS = 1.0
"""Seconds between two digests of all decisions."""

BATCH = 128
"""Notes that are encoded together: one at a time they cost more than twice as much."""

Note = tuple[float, Command | Again] | list[Effect]
"""An input with its time, or the effects of the last one."""


class Notes:
    """The inputs of the core and their effects, in order, until they are encoded.

    Commands and effects never change. The loop encodes each full batch, and the thread the remaining notes
    after a while. Neither waits for the other.
    """

    waiting: deque[Note]

    def __init__(self, writer: Writer) -> None:
        """Pass encoded entries to `writer`."""
        self.waiting = deque()
        self._writer = writer
        self._state = writer.state
        self._lock = Lock()
        self._digest = DigestOf()
        self._summed = 0.0
        writer.collect = self.collect

    def collect(self) -> None:
        """Encode all notes, unless another thread is doing so."""
        if self._lock.acquire(blocking=False):
            try:
                self._take_all()
            finally:
                self._lock.release()

    def drop(self) -> None:
        """Drop all notes, as the journal has stopped, unless another thread is encoding them."""
        if self._lock.acquire(blocking=False):
            self.waiting.clear()
            self._lock.release()

    def end(self, now: float) -> None:
        """Encode all notes, and append the digest of all decisions."""
        with self._lock:
            self._take_all()
            self._put_digest(now)

    def _take_all(self) -> None:
        try:
            while self.waiting:
                note = self.waiting.popleft()
                if isinstance(note, list):
                    self._digest.saw(note)
                    continue
                now, what = note
                if not 0 <= now - self._summed < DIGEST_SECONDS:
                    self._put_digest(now)
                self._writer.put(entry(now, what))
                self._state.inputs += 1
        except Exception as error:
            self._writer.stop(f"a command cannot be written: {error}")

    def _put_digest(self, now: float) -> None:
        self._summed = now
        self._writer.put(entry(now, Digest(self._state.inputs, self._digest.value())))


class JournaledCore:
    """A core whose commands and times are recorded before it handles them."""

    def __init__(self, core: Core, writer: Writer) -> None:
        """Record the commands of a new core."""
        self._core = core
        self._state = writer.state
        self._notes = Notes(writer)
        self._wake = writer.wake
        # Unfinished commands, by RM.
        self._begun: dict[RmId, Command] = {}

    @property
    def waiting(self) -> int:
        """See `Core`."""
        return self._core.waiting

    @property
    def last_turn(self) -> Turn | None:
        """See `Scheduler`."""
        return self._core.last_turn

    def next_deadline(self) -> float | None:
        """See `Scheduler`."""
        return self._core.next_deadline()

    def handle(self, command: Command, now: float) -> list[Effect]:
        """See `Scheduler`; a failure of the journal stops the journal, never the command."""
        if self._state.problem:
            if self._notes.waiting:
                self._notes.drop()
                self._begun.clear()
            return self._core.handle(command, now)
        waiting = self._notes.waiting
        if not waiting:
            self._wake()
        waiting.append((now, self._known(command) if self._begun else command))
        try:
            effects = self._core.handle(command, now)
        except TickFailed as failure:
            waiting.append(failure.effects)
            raise
        if effects:
            waiting.append(effects)
            last = effects[-1]
            if isinstance(last, Unfinished):
                self._begun[last.rm_id] = last.rest
        if len(waiting) >= BATCH:
            self._notes.collect()
            self._wake()
        return effects

    def end(self, now: float) -> None:
        """Record the digest of all decisions at the end of the run."""
        self._notes.end(now)

    def _known(self, command: Command) -> Command | Again:
        """The command, or `Again` in its place if it is the rest of one that has begun."""
        if not isinstance(command, OfNoRm) and self._begun.get(command.rm_id) is command:
            del self._begun[command.rm_id]
            return Again(command.rm_id)
        return command
