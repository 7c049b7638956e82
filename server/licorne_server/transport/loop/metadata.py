"""Metadata and statuses in the form in which gRPC puts them into HTTP/2 headers (gRPC's PROTOCOL-HTTP2)."""

import base64
import re
import zlib
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import grpc

from licorne_server.transport.interface import Metadata

Pairs = list[tuple[str, str]]

HEAD: Pairs = [("content-type", "application/grpc"), ("grpc-accept-encoding", "identity, deflate, gzip")]
"""Headers at the beginning of every response."""

_BINARY = "-bin"
_OF_GRPC = frozenset({"te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"})
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT_DIGITS = 8

# Window bits for zlib: for data with zlib's own header, and with the header of gzip.
_ENCODINGS = {"deflate": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS | 16}


class MetadataError(ValueError):
    """Headers that break gRPC's rules; the text names the header and its value."""


class TooLarge(Exception):
    """A message exceeds the bound on its bytes."""


def received(headers: Pairs) -> Metadata:
    """The caller's own metadata, from the headers of a request.

    Raises:
        MetadataError: a binary value is not in base64.
    """
    pairs: list[tuple[str, str | bytes]] = []
    for key, value in headers:
        if key in _OF_GRPC:
            continue
        if not key.endswith(_BINARY):
            pairs.append((key, value))
            continue
        for part in value.split(","):
            try:
                pairs.append((key, base64.b64decode(part + "=" * (-len(part) % 4), validate=True)))
            except ValueError:  # of binascii, or for text that is not ASCII
                raise MetadataError(f"{key} is not in base64: {part[:64]}") from None
    return tuple(pairs)


def sent(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """Metadata as headers."""
    return [
        (key, value if isinstance(value, str) else base64.b64encode(value).decode().rstrip("="))
        for key, value in metadata
    ]


def trailers(status: grpc.Status) -> Pairs:
    """A status as the trailing headers of a response."""
    code: int = status.code.value[0]
    pairs = [("grpc-status", str(code))]
    if status.details:
        pairs.append(("grpc-message", _quoted(status.details)))
    return pairs + sent(status.trailing_metadata or ())


def _quoted(text: str) -> str:
    """Percent-encode a text for a header."""
    # All characters that need no encoding: printable ASCII without the percent sign.
    quoted = quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~", errors="replace")
    # HTTP/2 forbids values that begin or end with a space: some clients fail such calls.
    return re.sub("^ +| +$", lambda spaces: "%20" * len(spaces[0]), quoted)


def timeout(value: str) -> float:
    """Parse a timeout header; returns seconds.

    Raises:
        MetadataError: the value is no timeout.
    """
    digits, unit = value[:-1], value[-1:]
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _TIMEOUT_DIGITS and unit in _UNITS):
        raise MetadataError(f"grpc-timeout is not a time: {value[:64]}")
    return int(digits) * _UNITS[unit]


class Packed(bytes):
    """A compressed message. It is decompressed when it is read, so few have their full size at a time."""


class Unpacking:
    """Decompresses the messages of a call."""

    def __init__(self, encoding: str, most: int) -> None:
        """`encoding` is the one in the call's headers; a message may have at most `most` bytes."""
        self._encoding = encoding
        self.most = most

    def unpacked(self, message: bytes) -> bytes:
        """The decompressed message.

        Raises:
            MetadataError: the message is not in the encoding, or the encoding is unknown.
            TooLarge: the message has more than `most` bytes.
        """
        form = _ENCODINGS.get(self._encoding)
        if form is None:
            raise MetadataError(f"grpc-encoding is not supported: {self._encoding[:64] or 'identity'}")
        unpacker = zlib.decompressobj(form)
        try:
            data = unpacker.decompress(message, self.most + 1)
        except zlib.error:
            raise MetadataError(f"a message is not of its grpc-encoding, {self._encoding}") from None
        if len(data) > self.most:
            raise TooLarge
        if not unpacker.eof:
            raise MetadataError(f"a message is not of its grpc-encoding, {self._encoding}")
        return data


def header(headers: Sequence[tuple[str, str]], key: str) -> str:
    """The first value of a header; empty if there is none."""
    return next((value for name, value in headers if name == key), "")
