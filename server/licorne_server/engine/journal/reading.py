"""Reads journals that need not be trusted: whatever the files contain, only valid records are returned."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from licorne_core.messages.commands import Command, LargeCommand
from licorne_core.values.ids import RmId
from licorne_server.engine.journal.codec import Entries
from licorne_server.engine.journal.folder import MAGIC, Segment, read_frame, segments
from licorne_server.engine.journal.records import Digest, Input, Record, Torn, Unreadable
from licorne_server.engine.journal.table import Again


def read(folder: Path, run: int | None = None) -> Iterator[Record]:
    """The records of a journal, run by run, or of one run: a header, inputs and digests.

    If a run is torn, `Torn` is its last record. A journal may be read while it is written.

    Raises:
        OSError: a file cannot be read.
    """
    for number, files in runs_of(folder).items():
        if run in (None, number):
            yield from _Run().records(files)


def runs_of(folder: Path) -> dict[int, list[Segment]]:
    """The files of each run, in order. Raises OSError."""
    runs: dict[int, list[Segment]] = {}
    for segment in segments(folder):
        runs.setdefault(segment.run, []).append(segment)
    return runs


class _Run:
    """Reads one run."""

    def __init__(self) -> None:
        # The last command of each RM, of which the rest may follow.
        self._begun: dict[RmId, Command] = {}

    def records(self, files: list[Segment]) -> Iterator[Record]:
        for number, segment in enumerate(files, start=1):
            with segment.path.open("rb") as file:
                at = 0
                try:
                    if segment.number != number:
                        raise Unreadable(f"file {number} of the run is missing")
                    entries = self._begin(file, segment)
                    if number == 1:
                        yield entries.header
                    at = file.tell()
                    while (block := read_frame(file)) is not None:
                        yield from self._of(entries, block)
                        at = file.tell()
                except Unreadable as error:
                    yield Torn(segment.path.name, at, str(error))
                    return

    @staticmethod
    def _begin(file: BinaryIO, segment: Segment) -> Entries:
        """Read the header of a file, which is its first block."""
        if file.read(len(MAGIC)) != MAGIC:
            raise Unreadable("it is not a file of a journal")
        block = read_frame(file)
        if block is None:
            raise Unreadable("the file ends before its header")
        entries = Entries(block)
        if (entries.header.run, entries.segment) != (segment.run, segment.number):
            raise Unreadable(f"it is file {entries.segment} of run {entries.header.run} by its header")
        return entries

    def _of(self, entries: Entries, block: bytes) -> Iterator[Input | Digest]:
        for now, what in entries.of(block):
            if isinstance(what, Digest):
                yield what
                continue
            command = self._begun.get(what.rm_id) if isinstance(what, Again) else what
            if command is None:
                raise Unreadable("it has the rest of a command that has not begun")
            if isinstance(command, LargeCommand):
                self._begun[command.rm_id] = command
            yield Input(now, command)
