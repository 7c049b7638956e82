"""HTTP/2 without I/O: bytes in, events and bytes out, with its bounds kept for any input."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import licorne_transport as http2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.peers.networks import (
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    MORE,
    PING,
    RESET,
    UNKNOWN,
    WINDOW,
    frame,
    header_block,
)
from support.peers.raw_grpc import GREETING, data, literal, opening, packed

pytestmark = pytest.mark.transport

MOST = 64 * 1024
HEAD = [("content-type", "application/grpc")]
OUTGOING = 512 * 1024
"""More bytes than ever wait to be sent, because all of them are taken after each step."""

Events = list[tuple[int, int, Any]]


def joined(events: Events) -> dict[int, list[Any]]:
    """The events of each stream, however its messages arrived."""
    found: dict[int, list[Any]] = {}
    for stream, kind, payload in events:
        line = found.setdefault(stream, [])
        if kind == http2.MESSAGES:
            line += [(kind, message) for message in payload]
        else:
            line.append((kind, payload))
    return found


def fed(connection: http2.Connection, *chunks: bytes) -> tuple[Events, bytes]:
    """All events of these chunks, and all bytes to send."""
    events: Events = []
    sent = b""
    for chunk in chunks:
        events += connection.feed(chunk)
        while connection.has_more:
            events += connection.feed(b"")
        sent += connection.take()
    return events, sent


def kinds(sent: bytes) -> list[int]:
    """The kinds of the frames to send."""
    found = []
    while sent:
        found.append(sent[3])
        sent = sent[9 + int.from_bytes(sent[:3]) :]
    return found


def cut(raw: bytes, places: Sequence[int]) -> list[bytes]:
    """Bytes cut at these positions."""
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[begin:end] for begin, end in pairwise(edges)]


messages = st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([0, 0, 0, 1])), max_size=6)
calls = st.lists(st.tuples(messages, st.booleans(), st.booleans()), min_size=1, max_size=4)
places = st.lists(st.integers(0, 5_000), max_size=12)


def stream_of(calls: list[tuple[list[tuple[bytes, int]], bool, bool]], places: Sequence[int]) -> bytes:
    """Calls of a client that keeps the rules: messages, whether they end, whether they are reset."""
    raw = GREETING
    for number, (every, ends, resets) in enumerate(calls):
        stream = 2 * number + 1
        body = b"".join(packed(message, flag) for message, flag in every)
        raw += opening(stream, "Any")
        raw += b"".join(data(stream, part) for part in cut(body, places) if part)
        raw += data(stream, b"", ends=True) if ends else b""
        raw += frame(RESET, (8).to_bytes(4), stream=stream) if resets else b""
    return raw + frame(PING, b"question")


@given(calls, places, places)
def test_events_do_not_depend_on_chunks(
    calls: list[tuple[list[tuple[bytes, int]], bool, bool]], frames: list[int], chunks: list[int]
) -> None:
    """The events of a stream are the same for any chunks, unless it is reset before it was processed."""
    raw = stream_of([(every, ends, False) for every, ends, _ in calls], frames)
    whole, _ = fed(http2.Connection(16, MOST), raw)
    parts, sent = fed(http2.Connection(16, MOST), *cut(raw, chunks))
    assert joined(parts) == joined(whole)
    assert PING in kinds(sent)
    for number, (every, ends, _) in enumerate(calls):
        opened, *rest = joined(whole)[2 * number + 1]
        assert (opened[0], opened[1][:2]) == (http2.OPENED, ("POST", "/test/Any"))
        expected = [(http2.COMPRESSED if flag else http2.MESSAGES, message) for message, flag in every]
        assert rest == [*expected, *([(http2.ENDED, False)] if ends else [])]


frame_of_any_kind = st.builds(
    lambda kind, payload, stream, flags: frame(kind, payload, stream=stream, flags=flags),
    st.sampled_from([*range(10), UNKNOWN]),
    st.binary(max_size=64) | st.just(header_block("/test/Any")),
    st.sampled_from([0, 1, 1, 3, 5, 2, 2**31 - 1]),
    st.integers(0, 255),
)
spoilt = st.tuples(calls, places, places, st.lists(st.tuples(st.integers(0, 5_000), st.binary(max_size=9))))


def mutated(raw: bytes, changes: Sequence[tuple[int, bytes]]) -> bytes:
    """Bytes of which some were replaced, or that end early."""
    for place, said in changes:
        at = place % (len(raw) + 1)
        raw = raw[:at] + said + (raw[at + len(said) :] if said else b"")
    return raw


def act(connection: http2.Connection, stream: int) -> None:
    """Do everything that may be done to a stream, in whatever state it is."""
    connection.respond(stream, HEAD)
    connection.send(stream, bytes(100))
    connection.consumed(stream, 3, 2**63)
    connection.finish(stream, HEAD, [("grpc-status", "0")])
    connection.send(stream, b"")
    connection.reset(stream, 2)


def bears(connection: http2.Connection, chunks: Sequence[bytes]) -> None:
    """Feed bytes, and react to the events: nothing is raised, and the state is consistent."""
    for chunk in chunks:
        for stream, kind, _ in connection.feed(chunk):
            if kind == http2.OPENED and stream % 4 == 1:
                act(connection, stream)
        connection.ping()
        connection.advance()
        assert len(connection.take()) < OUTGOING
        assert connection.advance() == []
        assert connection.take() == b""
    if connection.closed:
        assert connection.feed(bytes(100)) == []
        assert not connection.busy
    else:
        connection.shut_down()
        connection.advance()


@given(st.lists(frame_of_any_kind, max_size=12), places, st.booleans())
def test_any_frames_are_accepted_or_refused(frames: list[bytes], chunks: list[int], greets: bool) -> None:
    """Frames of any kind in any order raise no exception."""
    raw = (GREETING + opening(1, "Any") if greets else b"") + b"".join(frames)
    bears(http2.Connection(16, MOST), cut(raw, chunks))


@given(spoilt)
def test_damaged_bytes_raise_nothing(
    drawn: tuple[Any, list[int], list[int], list[tuple[int, bytes]]],
) -> None:
    """Valid calls of which some bytes were changed, or that are cut off, raise no exception."""
    calls, frames, chunks, changes = drawn
    bears(http2.Connection(16, MOST), cut(mutated(stream_of(calls, frames), changes), chunks))


@given(st.lists(st.sampled_from([0, 1, 2, 3, 9, 2**32 - 1]), max_size=6))
def test_calls_on_missing_streams_do_nothing(streams: list[int]) -> None:
    """Operations on a stream that never existed, or has ended, do nothing."""
    for begin in (b"", GREETING, GREETING + opening(1, "Any"), b"nonsense" * 9):
        connection = http2.Connection(16, MOST)
        fed(connection, begin)
        for stream in streams:
            act(connection, stream)
        connection.advance()
        assert len(connection.take()) < 1_000


def test_invalid_headers_are_refused_by_name() -> None:
    """A header that HTTP does not allow is an error of the caller, and nothing is sent."""
    connection = http2.Connection(16, MOST)
    fed(connection, GREETING + opening(1, "Any"))
    for name, value in (("a b", "c"), ("k", "two\nlines"), ("k", "\0")):
        with pytest.raises(ValueError, match="not a header of HTTP"):
            connection.respond(1, [(name, value)])
        with pytest.raises(ValueError, match="not a header of HTTP"):
            connection.finish(1, HEAD, [(name, value)])
    connection.advance()
    assert connection.take() == b""


HUGE = b"".join(literal(f"header-{number}", bytes(b"v" * 100)) for number in range(100))
BOMB = header_block("/test/Any") + b"\x40\x01k\x7e" + b"v" * 126 + b"\xbe" * 15_000
FLOODS = {
    "resets": b"".join(
        opening(stream, "Any") + frame(RESET, (8).to_bytes(4), stream=stream) for stream in range(1, 400, 2)
    ),
    "continuations": frame(HEADERS, header_block("/test/Any"), stream=1) + frame(MORE, b"", stream=1) * 5_000,
    "headers without an end": frame(HEADERS, header_block("/test/Any"), stream=1)
    + frame(MORE, HUGE[:10_000], stream=1) * 100,
    "refused streams": b"".join(opening(stream, "Any") for stream in range(1, 4_000, 2)),
    "empty frames": opening(1, "Any") + frame(DATA, stream=1) * 1_000,
    "small frames to an ended call": opening(1, "Any")
    + frame(RESET, (8).to_bytes(4), stream=1)
    + data(1, b"x") * 70_000,
    "garbage for headers": frame(HEADERS, b"\xff" * 100, stream=1, flags=END_HEADERS),
    "windows": opening(1, "Any") + frame(WINDOW, (2**31 - 1).to_bytes(4)) * 3,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_floods_end_the_connection(flood: str) -> None:
    """A connection that floods the server gets GOAWAY and is closed, after a bounded number of answers."""
    connection = http2.Connection(16, MOST)
    raw = GREETING + FLOODS[flood]
    sent = b""
    for begin in range(0, len(raw), MOST):
        sent += fed(connection, raw[begin : begin + MOST])[1]
    assert connection.closed
    assert kinds(sent)[-1] == GOAWAY
    assert len(sent) < 2 * MOST


@pytest.mark.parametrize("block", [header_block("/test/Any") + HUGE * 2, BOMB])
def test_too_large_headers_end_their_call(block: bytes) -> None:
    """A request with more headers than allowed is refused, also if they are small when packed."""
    connection = http2.Connection(16, MOST)
    parts = [block[begin : begin + 16_000] for begin in range(0, len(block), 16_000)]
    raw = frame(HEADERS, parts[0], stream=1, flags=0 if parts[1:] else END_HEADERS)
    for number, part in enumerate(parts[1:], start=2):
        raw += frame(MORE, part, stream=1, flags=END_HEADERS if number == len(parts) else 0)
    events, sent = fed(connection, GREETING + raw)
    assert (events, len(sent) < 1_000) == ([], True)
    assert connection.closed or HEADERS in kinds(sent)


def test_unread_answers_stop_requests() -> None:
    """Unread answers stop the connection from reading requests for more of them."""
    connection = http2.Connection(16, MOST)
    fed(connection, GREETING)
    for _ in range(60):
        connection.feed(frame(PING, b"question") * 1_000)
    first = len(connection.take())
    assert first < OUTGOING
    rest = 0
    while taken := (connection.advance(), connection.take())[1]:
        rest += len(taken)
    assert first + rest == 60 * 1_000 * 17


def test_settings_are_those_of_grpc() -> None:
    """The server announces the number of calls of a client, and its window."""
    _, sent = fed(http2.Connection(7, MOST), GREETING)
    size = int.from_bytes(sent[:3])
    said = dict(struct.unpack(">HI", sent[9 + at : 15 + at]) for at in range(0, size, 6))
    assert (said[3], said[4], said[6]) == (7, 256 * 1024, 16 * 1024)
