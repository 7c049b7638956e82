"""The wrapper of the core that records its commands and times, and the thread that writes a journal.

The loop passes entries one by one, and never waits. The thread writes them in blocks, every
`BATCH_SECONDS` while there are any. If it cannot write, or if the backlog exceeds `MOST_WAITING`, the journal
stops for good, because entries after a gap are of no use.
"""

from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread

import structlog

from licorne_core.messages.commands import Command, OfNoRm
from licorne_core.messages.effects import Effect, TickFailed, Unfinished
from licorne_core.messages.reports import Turn
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Core
from licorne_server.engine.journal.codec import entry, heading, together
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.folder import MAGIC, MOST_BLOCK, Folder, frame
from licorne_server.engine.journal.records import Digest, Header, JournalState
from licorne_server.engine.journal.table import Again

log = structlog.get_logger("core.journal")

BATCH_SECONDS = 0.2
"""Maximum seconds that an entry waits to be written, as long as the disk is fast enough."""
CLOSE_SECONDS = 10.0
"""Maximum number of seconds that the end of a run may take."""
BLOCK = 256 * 1024
"""Number of bytes of entries after which a block ends."""
SEGMENT = 64 * 1024 * 1024
"""Number of bytes after which a file ends."""
MOST_WAITING = 64 * 1024 * 1024
"""Maximum number of bytes of entries that wait for the thread."""


class Writer:
    """Writes one run of a journal, from `start` to `close`."""

    state: JournalState
    collect: Callable[[], None]
    """Encodes and puts the remaining notes; called in the thread."""

    def __init__(self, folder: Folder, state: JournalState, segment: int = SEGMENT) -> None:
        """Write into an open directory; `segment` is the size in bytes at which a file ends."""
        self.state = state
        self.collect = lambda: None
        self._folder = folder
        self._header: Header
        self._segment = segment
        self._entries: deque[bytes] = deque()
        # Number of bytes put, and number written; each is counted by one thread at a time.
        self._put = 0
        self._taken = 0
        self._came = Event()
        self._closing = Event()
        self._files = 0
        self._thread = Thread(target=self._run, name="journal", daemon=True)

    def start(self, header: Header) -> None:
        """Begin the first file, and the thread.

        Raises:
            OSError: the file cannot be written.
        """
        self._header = header
        self._begin_file()
        self.state.size = self._folder.size
        self._thread.start()

    def wake(self) -> None:
        """Let the current notes and entries be written soon."""
        if not self._came.is_set():
            self._came.set()

    def put(self, entry: bytes) -> None:
        """Queue an entry, to be written at the next `wake`, without waiting."""
        self._entries.append(entry)
        self._put += len(entry)
        if self._put - self._taken > MOST_WAITING:
            self.stop(f"the disk is too slow: more than {MOST_WAITING} bytes wait for it")

    def fail(self, error: Exception) -> None:
        """Stop the journal because of an error."""
        self.stop((error.strerror if isinstance(error, OSError) else "") or str(error))

    def stop(self, problem: str) -> None:
        """Stop the journal. The first reason is retained and logged."""
        if not self.state.problem:
            self.state.problem = problem
            log.warning("journal stopped", reason=problem, folder=str(self._folder.path))
        self._entries.clear()

    def close(self) -> None:
        """Write all queued entries, and end the run; blocks for at most `CLOSE_SECONDS`."""
        self._closing.set()
        self._came.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            closing = False
            while not closing:
                self._came.wait()
                self._closing.wait(BATCH_SECONDS)
                self._came.clear()
                # Entries that are put after this line set `_came` again.
                closing = self._closing.is_set()
                self.collect()
                while self._entries and not self.state.problem:
                    self._write_block()
            self._folder.end_file()
        except Exception as error:
            self.fail(error)
        finally:
            self._folder.close()

    def _write_block(self) -> None:
        block: list[bytes] = []
        size = 0
        while size < BLOCK and self._entries:
            block.append(self._entries.popleft())
            size += len(block[-1])
        if size > MOST_BLOCK:
            raise ValueError(f"a command of {size} bytes is too large for it")
        if self._folder.written >= self._segment:
            self._begin_file()
        self._folder.write(frame(together(block)))
        self.state.size = self._folder.size
        self._taken += size

    def _begin_file(self) -> None:
        self._files += 1
        self._folder.begin(MAGIC + frame(heading(self._header, self._files)))


DIGEST_SECONDS = 1.0
"""Seconds between two digests of all decisions."""

BATCH = 128
"""Number of notes that are encoded together: one at a time they cost more than twice as much."""

Note = tuple[float, Command | Again] | list[Effect]
"""An input with its time, or the effects of the last input."""


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
        """Drop all notes, as the journal has stopped; another thread that is encoding them does so itself."""
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
        """The command, or `Again` in its place if it is the remainder of a command that has begun."""
        if not isinstance(command, OfNoRm) and self._begun.get(command.rm_id) is command:
            del self._begun[command.rm_id]
            return Again(command.rm_id)
        return command
