"""Reading of journals: complete, cut anywhere, damaged, or malicious."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from licorne_core.messages.commands import Command, Hold, Options, RemoveRm, SetHold, Tick, UpdateNodes
from licorne_core.values.ids import RmId
from licorne_server.engine.journal.codec import entry, heading, read, together
from licorne_server.engine.journal.folder import MAGIC, MOST_BLOCK, Folder, frame
from licorne_server.engine.journal.records import Digest, Header, Input, Record, Torn
from licorne_server.engine.journal.table import Again

HEADER = Header(run=1, version="0.1.0", start=5.0, options=Options())
HEAD = MAGIC + frame(heading(HEADER, 1))
RM = RmId("rm-1")
BLOCKS: tuple[tuple[Command | Digest, ...], ...] = (
    (Tick(decisions=1), SetHold(rm_id=RM, hold=Hold.DRAINING, on=True)),
    (Digest(2, b"sum"),),
    (Tick(decisions=2), Tick(decisions=3), RemoveRm(rm_id=RM)),
)


def framed(entries: Sequence[Any]) -> bytes:
    """The frame of a block, all entries of one time."""
    return frame(together([entry(7.0, one) for one in entries]))


def records(entries: Sequence[Command | Digest]) -> list[Record]:
    """The records of these entries."""
    return [one if isinstance(one, Digest) else Input(7.0, one) for one in entries]


def write(folder: Path, data: bytes, name: str = "000001-0001.ljr") -> Path:
    """Write a file of a journal."""
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.slow
def test_a_journal_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path) -> None:
    """A journal cut at any byte has all records before the cut, and reports its place."""
    data, ends = HEAD, [len(HEAD)]
    for block in BLOCKS:
        data += framed(block)
        ends.append(len(data))
    # The header is long, and all of its bytes are treated alike.
    for size in (*range(0, len(HEAD), 61), *range(len(HEAD), len(data) + 1)):
        write(tmp_path, data[:size])
        whole = sum(end <= size for end in ends)
        expected: list[Record] = [HEADER] if whole else []
        for block in BLOCKS[: whole - 1] if whole else ():
            expected += records(block)
        found = list(read(tmp_path))
        if whole and ends[whole - 1] == size:
            assert found == expected
        else:
            *before, torn = found
            assert before == expected
            assert isinstance(torn, Torn)
            assert (torn.file, torn.offset) == ("000001-0001.ljr", ends[whole - 1] if whole else 0)
            assert "ends" in torn.reason or not whole


@pytest.mark.slow
def test_a_changed_byte_anywhere_is_detected(tmp_path: Path) -> None:
    """A changed byte is detected: the records before it are correct, and none after it is read."""
    data = HEAD + b"".join(map(framed, BLOCKS))
    expected = [HEADER, *(record for block in BLOCKS for record in records(block))]
    for at in (*range(0, len(HEAD), 61), *range(len(HEAD), len(data), 3)):
        write(tmp_path, data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :])
        *before, torn = read(tmp_path)
        assert isinstance(torn, Torn)
        assert before == expected[: len(before)]


def test_runs_and_files_are_read_in_order(tmp_path: Path) -> None:
    """A torn run does not prevent reading the next one, and a run continues from file to file."""
    one, two = framed(BLOCKS[0]), framed(BLOCKS[2])
    write(tmp_path, HEAD + one + two[:-1])
    second = Header(run=2, version="0.1.0", start=9.0, options=Options())
    for number, block in ((1, one), (2, two)):
        data = MAGIC + frame(heading(second, number)) + block
        write(tmp_path, data, f"000002-{number:04}.ljr")
    write(tmp_path, b"", "lock")
    assert list(read(tmp_path)) == [
        HEADER,
        *records(BLOCKS[0]),
        Torn("000001-0001.ljr", len(HEAD + one), "the file ends within a record"),
        second,
        *records(BLOCKS[0]),
        *records(BLOCKS[2]),
    ]
    (tmp_path / "000002-0001.ljr").unlink()
    assert list(read(tmp_path))[-1] == Torn("000002-0002.ljr", 0, "file 1 of the run is missing")


def test_rest_of_a_command_is_the_same_object(tmp_path: Path) -> None:
    """The remainder of a large command is read as the same object, whatever entries are in between."""
    large, other = UpdateNodes(rm_id=RM, nodes=()), UpdateNodes(rm_id=RmId("rm-2"), nodes=())
    hold = SetHold(rm_id=RM, hold=Hold.DRAINING, on=True)
    write(tmp_path, HEAD + framed((large, other, hold, Again(RM), Tick(), Again(RM))))
    found = [record.command for record in read(tmp_path) if isinstance(record, Input)]
    assert found == [large, other, hold, large, Tick(), large]
    assert found[0] is found[3] is found[5]


def raw_frame(stored: bytes, size: int) -> bytes:
    """A frame with a valid checksum, whose header may announce any size."""
    sizes = len(stored).to_bytes(4, "little") + size.to_bytes(4, "little")
    return sizes + zlib.crc32(stored, zlib.crc32(sizes)).to_bytes(4, "little") + stored


BOMB = zlib.compress(bytes(2 * MOST_BLOCK), 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is not a file of a journal"),
        (b"PK\x03\x04" * 100, "it is not a file of a journal"),
        (MAGIC, "the file ends before its header"),
        (MAGIC + b"\xff" * 64, "a record of 4294967295 bytes, stored in 4294967295, cannot be"),
        (MAGIC + raw_frame(BOMB, MOST_BLOCK), "a record has another size than was written"),
        (MAGIC + raw_frame(BOMB, 10 * MOST_BLOCK), f"a record of {10 * MOST_BLOCK} bytes"),
        (MAGIC + raw_frame(b"no zlib", 5), "a record cannot be decompressed"),
        (MAGIC + frame(b"\x80"), "it is not what a journal has"),
        (MAGIC + frame(b"\x81\xa6format\x02"), "it is not what a journal has"),
        (MAGIC + frame(heading(HEADER, 2)), "it is file 2 of run 1 by its header"),
        (HEAD + frame(b"\xdd\xff\xff\xff\xff" + b"\xc0" * 99), "it is not what a journal has"),
        (HEAD + frame(b"\x91" * 1_000_000), "it is not what a journal has"),
        (HEAD + framed((Again(RM),)), "it has the rest of a command that has not begun"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malicious_files_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """An invalid file, or one that announces more than it has, is refused with a reason and little memory."""
    write(tmp_path, data)
    *_, torn = read(tmp_path)
    assert isinstance(torn, Torn)
    assert torn.reason.startswith(reason)


def test_other_files_are_ignored(tmp_path: Path) -> None:
    """Only files with names of segments are read."""
    for name in ("000001-0001.ljr.bak", "1-1.ljr", "notes.txt", "000001-0001.LJR"):
        write(tmp_path, HEAD, name)
    assert list(read(tmp_path)) == []


def test_writer_and_reader_agree_on_names(tmp_path: Path) -> None:
    """A written file is found by the reader, with its size."""
    folder = Folder(tmp_path / "deep" / "journal", 10_000)
    assert folder.open()
    folder.begin(HEAD)
    assert folder.size == len(HEAD) == folder.written
    assert list(read(folder.path)) == [HEADER]
    folder.close()
