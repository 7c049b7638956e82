"""The thread that writes a journal.

The loop passes entries one by one, and never waits. The thread writes them in blocks, every
`BATCH_SECONDS` while there are any. If it cannot write, or if the backlog exceeds `MOST_WAITING`, the journal
stops for good, because entries after a gap are of no use.
"""

from collections import deque
from collections.abc import Callable
from threading import Event, Thread

import structlog

from licorne_server.engine.journal.codec import heading, together
from licorne_server.engine.journal.folder import Folder
from licorne_server.engine.journal.frames import MAGIC, MOST_BLOCK, frame
from licorne_server.engine.journal.records import Header, JournalState

log = structlog.get_logger("core.journal")

BATCH_SECONDS = 0.2
"""Seconds that an entry waits, at most, while the disk keeps up."""
CLOSE_SECONDS = 10.0
"""Most seconds that the end of a run may take."""
BLOCK = 256 * 1024
"""Bytes of entries after which a block ends."""
SEGMENT = 64 * 1024 * 1024
"""Bytes after which a file ends."""
MOST_WAITING = 64 * 1024 * 1024
"""Bytes of entries that may wait for the thread."""


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
        # Bytes put and bytes written; each is counted by one thread at a time.
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
        """Have the present notes and entries written soon."""
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
                # Entries that arrive after this line set `_came` again.
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
