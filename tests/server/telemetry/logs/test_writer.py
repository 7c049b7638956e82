"""The writer of the log: callers neither wait nor fail, whatever the state of stderr."""

import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from licorne_server.process.lost_lines import Drops
from licorne_server.telemetry.logs.lines import Lines
from licorne_server.telemetry.logs.stderr import Writer
from support.patience import PATIENCE
from support.server.process_log import full_disk, pipe, sealed

Start = Callable[[int | None], Writer]


@pytest.fixture
def drops() -> Drops:
    """Counts without drops."""
    return Drops()


@pytest.fixture
def start(drops: Drops) -> Start:
    """Starts a writer whose queue takes 100 lines and 10,000 bytes."""

    def started(fd: int | None) -> Writer:
        writer = Writer(fd, drops, Lines(drops).of_drops, max_lines=100, max_bytes=10_000)
        writer.start()
        return writer

    return started


def read_all(fd: int) -> list[str]:
    """All lines until the other end is closed."""
    with os.fdopen(os.dup(fd), encoding="ascii") as stream:
        return stream.read().splitlines()


def reader(fd: int, lines: list[str]) -> threading.Thread:
    """A thread that reads all lines."""
    thread = threading.Thread(target=lambda: lines.extend(read_all(fd)))
    thread.start()
    return thread


@pytest.mark.parametrize("blocking", [True, False])
def test_unread_lines_are_dropped_beyond_the_bound(start: Start, drops: Drops, *, blocking: bool) -> None:
    """A full pipe blocks no caller; its reader later gets the queued lines and the number of dropped ones."""
    with pipe() as (read, write):
        os.set_blocking(write.fileno(), blocking)
        writer = start(write.fileno())
        for number in range(1000):
            writer.write(json.dumps({"number": number, "text": "x" * 100}))
        dropped = drops.totals()["queue_full"]
        assert 0 < dropped < 1000
        lines: list[str] = []
        thread = reader(read.fileno(), lines)
        writer.close(PATIENCE)
        write.close()
        thread.join(PATIENCE)
    *written, told = [json.loads(line) for line in lines]
    numbers = [line["number"] for line in written]
    assert len(numbers) == 1000 - dropped
    assert numbers == sorted(numbers)
    assert (told["event"], told["reason"], told["number"]) == (
        *("log lines dropped", "queue_full"),
        dropped,
    )


def test_lines_about_acts_fit_into_a_full_queue(start: Start, drops: Drops) -> None:
    """A queue full of other lines accepts as many lines about acts of operators, and no more."""
    with pipe() as (read, write):
        writer = start(write.fileno())
        for _ in range(1000):
            writer.write("x" * 100)
        others = drops.totals()["queue_full"]
        assert others > 0
        for _ in range(50):
            writer.write_audit("y" * 100)
        assert drops.totals()["queue_full"] == others
        for _ in range(1000):
            writer.write_audit("y" * 100)
        assert drops.totals()["queue_full"] > others
        read.close()
        writer.close(PATIENCE)


def test_the_queue_is_bounded_in_bytes_too(start: Start, drops: Drops) -> None:
    """A few long lines fill the queue like many short ones."""
    with pipe() as (read, write):
        writer = start(write.fileno())
        for _ in range(5):
            writer.write("x" * 6_000)
        # One line is being written, and one or two more are queued; the others do not fit.
        assert drops.totals()["queue_full"] >= 3
        read.close()
        writer.close(PATIENCE)


def test_the_stop_takes_bounded_time(start: Start, drops: Drops) -> None:
    """Without a reader the writer stops after a time, with lines in its queue."""
    with pipe() as (read, write):
        writer = start(write.fileno())
        writer.write("x" * 8_000)
        writer.close(0.01)
        writer.write("too late")
        assert drops.totals()["closed"] == 1
        lines: list[str] = []
        thread = reader(read.fileno(), lines)
        writer.close(PATIENCE)
        write.close()
        thread.join(PATIENCE)


@pytest.mark.parametrize("reason", ["no_space", "closed", "write_failed"])
def test_lines_that_cannot_be_written_are_counted(start: Start, drops: Drops, reason: str) -> None:
    """A full disk, a closed pipe and an invalid descriptor cost lines only."""
    with pipe() as (read, write), full_disk() as full, sealed() as other:
        read.close()
        fd = {"no_space": full, "closed": write.fileno(), "write_failed": other}[reason]
        writer = start(fd)
        for _ in range(3):
            writer.write("line")
        writer.close(PATIENCE)
    assert {name: n for name, n in drops.totals().items() if n} == {reason: 3}


def test_without_stderr_everything_is_dropped(start: Start, drops: Drops) -> None:
    """A process without stderr counts all lines as dropped."""
    writer = start(None)
    writer.write("line")
    writer.close(PATIENCE)
    assert drops.totals()["closed"] == 1


def test_an_incomplete_line_does_not_affect_the_next(start: Start, drops: Drops, tmp_path: Path) -> None:
    """A reader that returns after an incomplete line gets complete lines."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write = os.open(path, os.O_WRONLY)
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(read, True)
    writer = start(write)
    writer.write("x" * 8_000)
    assert os.read(read, 1) == b"x"
    os.close(read)
    while not drops.totals()["closed"]:
        threading.Event().wait(0.001)
    read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(read, True)
    lines: list[str] = []
    thread = reader(read, lines)
    writer.write("whole")
    writer.close(PATIENCE)
    os.close(write)
    thread.join(PATIENCE)
    os.close(read)
    # The system still had a part of the first line.
    assert set(lines[0]) == {"x"}
    assert lines[1] == "whole"
