"""Keys out of bytes."""

import pytest

from licorne_cli.screen.terminal import LONGEST_SEQUENCE, Keys

SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1b[5~": "page-up",
    b"\x1b[6~": "page-down",
    b"\x1b[H": "home",
    b"\x1b[4~": "end",
    b"\r": "enter",
    b"\x7f": "backspace",
    b"\t": "tab",
    "京".encode(): "京",
    b"q": "q",
}


@pytest.mark.parametrize("data", SEQUENCES)
def test_a_key_may_come_in_pieces(data: bytes) -> None:
    """At once or byte by byte, it is the same key, and nothing is left over."""
    whole, pieces = Keys(), Keys()
    assert whole.feed(data) == [SEQUENCES[data]]
    assert [key for byte in data for key in pieces.feed(bytes([byte]))] == [SEQUENCES[data]]
    assert not whole.is_open
    assert not pieces.is_open


def test_an_escape_is_a_key_once_nothing_follows() -> None:
    """Or at once, if what follows is none of its sequences."""
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.is_open
    assert keys.settle() == ["escape"]
    assert keys.feed(b"\x1bx") == ["escape", "x"]
    assert keys.feed(b"\x1b\x1b[A") == ["escape", "up"]
    assert keys.settle() == []


def test_what_is_no_key_means_nothing() -> None:
    """Unknown and endless sequences, control characters and broken text are dropped."""
    keys = Keys()
    assert keys.feed(b"\x1b[200~a\x1b[1;5Ab\x00\x07\xffc") == ["a", "b", "c"]
    assert keys.feed(b"\x1b[" + b"0" * (LONGEST_SEQUENCE - 1)) == []
    assert not keys.is_open
    assert keys.feed(b"\x1b[3") == []
    assert keys.settle() == []
    assert keys.feed(b"d") == ["d"]
