"""The thread that writes a journal.

The loop hands over entries one by one, and never waits. The thread takes what has come in every
`BATCH_SECONDS` and writes it in blocks. It has nothing to do while nothing comes in. If it cannot write, or
if more waits than `MOST_WAITING`, the journal stops for good: a journal with a gap is of no use.
"""

from collections import deque
from threading import Event, Thread

import structlog

from licorne_server.journal.codec import heading, together
from licorne_server.journal.folder import Folder, Full
from licorne_server.journal.frames import MAGIC, MOST_BLOCK, frame
from licorne_server.journal.records import Header

log = structlog.get_logger("core.journal")

BATCH_SECONDS = 0.2
BLOCK = 256 * 1024
"""Bytes of entries after which a block ends."""
SEGMENT = 64 * 1024 * 1024
"""Bytes after which a file ends."""
MOST_WAITING = 64 * 1024 * 1024
"""Bytes of entries that may wait for the thread."""


class Writer:
    """Writes one run of a journal, from `start` to `close`."""

    problem: str
    """Reason that nothing is written any more; empty while all is well. Any thread may read it."""

    def __init__(self, folder: Folder, header: Header, segment: int = SEGMENT) -> None:
        """Write into an open directory. `segment` has the bytes after which a file ends."""
        self.problem = ""
        self._folder = folder
        self._header = header
        self._segment = segment
        self._entries: deque[bytes] = deque()
        # Bytes of entries: each is changed by one thread only.
        self._put = 0
        self._taken = 0
        self._came = Event()
        self._closing = Event()
        self._files = 0
        self._thread = Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        """Begin the first file, and the thread.

        Raises:
            Full, OSError: the directory has no room, or cannot be written.
        """
        self._begin_file()
        self._thread.start()

    def put(self, entry: bytes) -> None:
        """Have an entry written; never waits."""
        self._entries.append(entry)
        self._put += len(entry)
        if not self._came.is_set():
            self._came.set()
        if self._put - self._taken > MOST_WAITING:
            self.stop(f"the disk is too slow: {MOST_WAITING} bytes wait")

    def stop(self, problem: str) -> None:
        """Write no more, for this reason. The first reason is kept, and the log has it."""
        if not self.problem:
            self.problem = problem
            log.warning("journal stopped", reason=problem, folder=str(self._folder.path))
        self._entries.clear()

    def close(self) -> None:
        """Write what waits, and end the run; waits for the disk."""
        self._closing.set()
        self._came.set()
        self._thread.join()
        try:
            self._folder.close()
        except OSError as error:
            self.stop(_reason(error))

    def _run(self) -> None:
        while not self._closing.is_set():
            self._came.wait()
            self._closing.wait(BATCH_SECONDS)
            self._came.clear()
            try:
                while self._entries and not self.problem:
                    self._write_block()
            except Exception as error:
                self.stop(_reason(error))

    def _write_block(self) -> None:
        block: list[bytes] = []
        size = 0
        try:
            while size < BLOCK:
                block.append(self._entries.popleft())
                size += len(block[-1])
        except IndexError:  # all are taken, or the journal was stopped
            pass
        self._taken += size
        if size > MOST_BLOCK:
            raise ValueError(f"a command of {size} bytes is too large")
        if self._folder.written >= self._segment:
            self._begin_file()
        if block:
            self._folder.write(frame(together(block)))

    def _begin_file(self) -> None:
        self._files += 1
        self._folder.begin(MAGIC + frame(heading(self._header, self._files)))


def _reason(error: Exception) -> str:
    if isinstance(error, Full):
        return "this run has reached --journal-size"
    return str(error)
