"""Encodes commands and headers by the table, and reads the records of a journal.

A journal need not be trusted: whatever its files contain, only valid records are returned.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, BinaryIO, get_args

import msgspec
from msgspec.structs import astuple

from licorne_core.config import InvalidConfiguration
from licorne_core.messages.commands import Command, LargeCommand
from licorne_core.values.errors import LicorneError
from licorne_core.values.ids import RmId
from licorne_server.engine.journal.folder import MAGIC, Segment, read_frame, segments
from licorne_server.engine.journal.records import FORMAT, Digest, Header, Input, Record, Torn, Unreadable
from licorne_server.engine.journal.table import ENTRIES, OPTIONS, ROWS, Again

ARRAY = b"\xdd"
"""Begins an array in MessagePack; its length in four bytes follows."""

_PACKS = {row.kind: (tag, row.pack) for tag, row in enumerate(ENTRIES)}


_KNOWN = {row.name: row for row in ENTRIES}


def _plain(value: object) -> object:
    """Convert a mapping that is no dict, or a sequence that is no list, for MessagePack."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not in the table of the journal")


_encode: Callable[[object], bytes] = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def entry(now: float, what: Command | Again | Digest) -> bytes:
    """The bytes of one entry. Raises any error for an unwritable value, such as a lone surrogate."""
    tag, pack = _PACKS[type(what)]
    return _encode((tag, now, *pack(what)))


def together(entries: Sequence[bytes]) -> bytes:
    """Join encoded entries into one array."""
    return b"".join((ARRAY, len(entries).to_bytes(4, "big"), *entries))


class _Heading(msgspec.Struct):
    """The header of a file, in its encoded form."""

    format: int
    run: int
    segment: int
    version: str
    start: float
    entries: list[str]
    columns: dict[str, list[str]]
    options: msgspec.Raw


def heading(header: Header, segment: int) -> bytes:
    """Encode a file's header; `segment` is the number of the file in its run, from 1 up."""
    return _encode(
        _Heading(
            format=FORMAT,
            run=header.run,
            segment=segment,
            version=header.version,
            start=header.start,
            entries=[row.name for row in ENTRIES],
            columns={name: list(row.columns) for name, row in ROWS.items()},
            options=msgspec.Raw(_encode(OPTIONS.pack(header.options))),
        )
    )


class Entries:
    """Reads the entries of one file."""

    header: Header
    segment: int
    """Number of the file in its run, from 1."""

    def __init__(self, heading: bytes) -> None:
        """Read the header of the file.

        Raises:
            Unreadable: it is no header, or one that this version cannot read.
        """
        found = _decoded(msgspec.msgpack.Decoder(_Heading), heading)
        if found.format != FORMAT:
            raise Unreadable(f"it has format {found.format}, and this version reads format {FORMAT}")
        if not found.entries or len(set(found.entries)) < len(found.entries):
            raise Unreadable("it names no command, or one twice")
        kinds: list[Any] = []
        self._make: dict[Any, Callable[[Sequence[Any]], Any]] = {}
        for tag, name in enumerate(found.entries):
            if name not in _KNOWN:
                raise Unreadable(f"it has a command that this version does not know: {name[:64]!r}")
            wire, make = _KNOWN[name].reading(found.columns)
            kind = msgspec.defstruct(
                name,
                [("now", float), *((f"column_{at}", one) for at, one in enumerate(get_args(wire)))],
                array_like=True,
                tag=tag,
                forbid_unknown_fields=True,
            )
            assert make is not None
            kinds.append(kind)
            self._make[kind] = make
        self._decoder = msgspec.msgpack.Decoder(list[reduce(or_, kinds)])  # type: ignore[misc]
        wire, make = OPTIONS.reading(found.columns)
        assert make is not None
        options = _made(make, _decoded(msgspec.msgpack.Decoder(wire), found.options))
        if isinstance(options.default_config, InvalidConfiguration):
            raise Unreadable("its default configuration is not valid in this version")
        self.header = Header(run=found.run, version=found.version, start=found.start, options=options)
        self.segment = found.segment

    def of(self, block: bytes) -> Iterator[tuple[float, Command | Again | Digest]]:
        """The entries of a block, each with its time.

        Raises:
            Unreadable: the bytes are no block of entries.
        """
        for found in _decoded(self._decoder, block):
            now, *values = astuple(found)
            yield now, _made(self._make[type(found)], values)


def _decoded(decoder: Any, data: bytes | msgspec.Raw) -> Any:
    """Decode the bytes; raises Unreadable for bytes that the decoder refuses."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(f"it is not what a journal has: {str(error)[:200]}") from None


def _made(make: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    """Make an object of these values; raises Unreadable if one is missing or invalid."""
    try:
        return make(values)
    except (TypeError, ValueError, LicorneError) as error:
        raise Unreadable(f"it has a value that cannot be: {str(error)[:200]}") from None


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
        # The last command of each RM, which the next record may continue.
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
