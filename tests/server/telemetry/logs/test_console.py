"""Log lines for a terminal: one line of text per entry, without control characters."""

import os
import pty
import re
from collections.abc import Iterator

import pytest

from licorne_server.process.lost_lines import Drops
from licorne_server.telemetry.logs.lines import MAX_LINE, Lines
from licorne_server.telemetry.logs.process import Console
from support.server.server_process import PROGRAM, ServerProcess

FORGED = "x\r\n12:00:00 error\x1b[31m\x7f\u202e"
UNCOLOURED = ("env", "NO_COLOR=1", *PROGRAM)
PLAIN = Console(colours=False)
ENTRY = {
    "event": "registered",
    "level": "info",
    "timestamp": "2026-01-02T03:04:05.678901Z",
    "rm_id": "rm-1",
    "session": 2,
}


def test_an_entry_is_one_line() -> None:
    """A line has time of day, level, event, and the other fields by name."""
    assert PLAIN(ENTRY) == "03:04:05.678 info     registered                   rm_id=rm-1 session=2"


def test_texts_of_peers_stay_inside_their_line() -> None:
    """Control characters are escaped in events, names and values."""
    line = PLAIN({**ENTRY, "event": FORGED, "reason": FORGED})
    assert line.isascii()
    assert line.isprintable()


def test_a_value_with_blanks_is_quoted() -> None:
    """A value with blanks is quoted, so that its end is visible."""
    assert PLAIN({**ENTRY, "reason": "two words"}).endswith('session=2 reason="two words"')


def test_a_line_is_bounded() -> None:
    """A line of the console is bounded, whatever a peer has sent."""
    assert len(PLAIN({**ENTRY, "text": "\u202e" * 1_000_000})) < MAX_LINE + 1000


def test_a_traceback_follows_its_line() -> None:
    """The traceback follows its line, with the error last, as in Python."""
    lines = Lines(Drops(), PLAIN)
    with pytest.raises(ValueError, match="none") as caught:
        int("none")
    text = lines.foreign("kind", "error", "failed", exc_info=caught.value)
    first, *frames, last = text.splitlines()
    assert "failed" in first
    assert any("test_console.py" in frame for frame in frames)
    assert last.startswith("  ValueError: invalid literal")


def test_colours_are_optional() -> None:
    """Without colours there are no escape sequences; with colours the words are the same."""
    coloured = Console(colours=True)(ENTRY)
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == PLAIN(ENTRY)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: the descriptors of the test and of the program."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "begin"),
    [
        ((), rb"\d\d:\d\d:\d\d\.\d{3} info     started "),
        (("--log-format", "console"), rb"\d\d:\d\d:\d\d\.\d{3} info     started "),
        (("--log-format", "json"), rb'\{"event": "started"'),
    ],
)
async def test_a_terminal_gets_text(terminal: tuple[int, int], flags: tuple[str, ...], begin: bytes) -> None:
    """`serve` writes text where stderr is a terminal, unless an option selects JSON."""
    ours, theirs = terminal
    server = ServerProcess("--log-level", "info", *flags, stderr=theirs, program=UNCOLOURED)
    async with server:
        assert await server.stop() == 0
    assert re.match(begin, os.read(ours, 1 << 16))
