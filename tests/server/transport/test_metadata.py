"""Metadata, statuses and messages in gRPC's form in HTTP/2."""

import base64
import gzip
import tracemalloc
import zlib
from urllib.parse import unquote

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_server.transport.interface import Status
from licorne_server.transport.loop.metadata import (
    MetadataError,
    TooLarge,
    Unpacking,
    received,
    sent,
    timeout,
    trailers,
)

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1H", 3600),
        ("2M", 120),
        ("3S", 3),
        ("40m", 0.04),
        ("5u", 5e-6),
        ("6n", 6e-9),
        ("99999999S", 99999999),
    ],
)
def test_timeouts_have_a_unit(value: str, seconds: float) -> None:
    """A valid timeout has up to eight digits and a unit."""
    assert timeout(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["", "S", "1", "1h", "-1S", "+1S", "1.5S", "123456789S", "1 S", "²S", "1SS"]
)
def test_other_timeouts_are_refused(value: str) -> None:
    """Any other text is refused as a timeout."""
    with pytest.raises(MetadataError, match="grpc-timeout is not a time"):
        timeout(value)


@given(st.binary(), st.booleans())
def test_padding_of_binary_values_is_optional(value: bytes, pads: bool) -> None:
    """A binary value is read with and without padding, and sent without."""
    text = base64.b64encode(value).decode()
    given_text = text if pads else text.rstrip("=")
    assert received([("k-bin", given_text), ("te", "trailers"), ("k", "=")]) == (("k-bin", value), ("k", "="))
    assert sent([("k-bin", value), ("k", "v")]) == [("k-bin", text.rstrip("=")), ("k", "v")]


def test_a_binary_header_may_have_several_values() -> None:
    """Values that a proxy has joined are separated again."""
    assert received([("k-bin", "AA,AQ==")]) == (("k-bin", b"\0"), ("k-bin", b"\1"))


@pytest.mark.parametrize("value", ["A", "A?==", "\ufffd\ufffd", "A A=", "ÄÖÜ="])
def test_invalid_binary_values_are_refused(value: str) -> None:
    """A value that is not in base64 is refused by name, whatever its characters."""
    with pytest.raises(MetadataError, match="k-bin is not in base64"):
        received([("k-bin", value)])


@given(st.text() | st.text(" %a\n"))
def test_the_message_of_a_status_may_be_any_text(text: str) -> None:
    """The message of a status is visible ASCII without spaces at its ends, and decodes to the text."""
    pairs = dict(trailers(Status(grpc.StatusCode.ABORTED, text, (("k", "v"),))))
    message = pairs.get("grpc-message", "")
    assert pairs["grpc-status"] == "10"
    assert pairs["k"] == "v"
    assert message == message.strip()
    assert all(" " <= character <= "~" for character in message)
    assert unquote(message) == text


def test_a_status_with_invalid_characters_is_sent() -> None:
    """A text that UTF-8 cannot encode, such as the name of a file, is sent as far as possible."""
    assert dict(trailers(Status(grpc.StatusCode.INTERNAL, "a\udc80b")))["grpc-message"] == "a?b"


@given(st.binary())
def test_messages_are_decompressed(message: bytes) -> None:
    """Messages of both encodings are read; anything else is refused."""
    for encoding, packed in (("gzip", gzip.compress(message)), ("deflate", zlib.compress(message))):
        assert Unpacking(encoding, len(message)).unpacked(packed) == message
        for wrong in (packed[:-1], b"\7" + packed):
            with pytest.raises(MetadataError, match="not of its grpc-encoding"):
                Unpacking(encoding, len(message)).unpacked(wrong)
    for encoding in ("", "identity", "br"):
        with pytest.raises(MetadataError, match="grpc-encoding is not supported"):
            Unpacking(encoding, 9).unpacked(message)


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_decompression_is_bounded(compress: type[bytes]) -> None:
    """A message that is too large when decompressed is refused after the allowed number of bytes."""
    bomb = compress(bytes(64 * MIB))
    encoding = "gzip" if compress is gzip.compress else "deflate"
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            Unpacking(encoding, MIB).unpacked(bomb)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
