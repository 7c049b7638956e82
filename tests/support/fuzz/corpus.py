"""Messages in files that people can read: method, bytes, and the answers of the server.

A target is a method of one of both packages, found by the descriptors of their services. An entry is some
lines, with an empty line behind it::

    # nodes { nodeID: "n0" } rmID: "fuzz"
    > UpdateNode 0a040a02 6e30 12 04 66757a7a
    rejected: node n0: unknown action 0

The line with `#` is for the reader: the message as text, or what is wrong with it. The bytes are in
hexadecimal digits, in groups that mean nothing; ``61*300`` are 300 times the byte 61. The lines
below are the answers, each kind once, in alphabetical order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as admin
from licorne.v1 import session_pb2 as session
from licorne.v1 import state_pb2 as state


class How(Enum):
    """The ways in which a message is sent to the server."""

    CALL = "the request of a unary call"
    WATCH = "the request of a call with many responses"
    FIRST = "what a stream begins with"
    LATER = "what comes over a stream that was opened properly"


@dataclass(frozen=True, slots=True)
class Target:
    """A method, with the type of its messages and the way in which they are sent."""

    name: str
    method: str
    how: How
    request: Descriptor
    response: Any
    """The class of the answer."""

    @property
    def service(self) -> str:
        """The full name of the service."""
        return self.method.split("/")[1]

    @property
    def weight(self) -> int:
        """The relative frequency of the target: higher for methods that change state, and for sessions."""
        if self.how is How.LATER:
            return 10 if self.is_session else 4
        return 2 if self.how is How.FIRST or "Configuration" in self.name else 1

    @property
    def is_session(self) -> bool:
        """True if its messages are sent over the stream of a session."""
        return self.method == SESSION


SESSION = "/licorne.v1.Session/Update"
_FILES = (si.DESCRIPTOR, session.DESCRIPTOR, admin.DESCRIPTOR, state.DESCRIPTOR)


def _targets_of(service: str, method: MethodDescriptor) -> list[Target]:
    path = f"/{service}/{method.name}"
    types = (method.input_type, GetMessageClass(method.output_type))
    if method.client_streaming:
        name = "Session" if path == SESSION else method.name
        return [
            Target(f"{name}.first", path, How.FIRST, *types),
            Target(name, path, How.LATER, *types),
        ]
    how = How.WATCH if method.server_streaming else How.CALL
    return [Target(method.name, path, how, *types)]


TARGETS = {
    target.name: target
    for file in _FILES
    for service in file.services_by_name.values()
    for method in service.methods
    for target in _targets_of(service.full_name, method)
}
"""The targets by name: the method, with `.first` for the first message of a stream."""


FOLDER = Path(__file__).resolve().parent.parent.parent / "data" / "fuzz"
RUN = 8
"""The number of equal bytes from which they are abbreviated."""
SHOWN = 160
"""The maximum of characters of a message or answer in a line."""
_RUNS = re.compile(rb"(.)\1{%d,}" % (RUN - 1), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message and its answers."""

    target: Target
    raw: bytes
    answers: tuple[str, ...]

    def answered(self, answers: Sequence[str]) -> "Entry":
        """The same message with other answers."""
        return replace(self, answers=tuple(map(shortened, answers)))

    def text(self) -> str:
        """The entry as text of a file."""
        lines = (f"# {told(self)}", f"> {self.target.name} {digits(self.raw)}", *self.answers)
        return "\n".join(lines) + "\n"


def all_entries() -> list[Entry]:
    """The entries of all files."""
    return [entry for path in sorted(FOLDER.glob("*.txt")) for entry in read(path)]


def write_all(entries: Sequence[Entry]) -> None:
    """Write all files: a file for each service, with the methods in alphabetical order."""
    files: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.target.name, entry.raw)):
        files.setdefault(entry.target.service, []).append(entry)
    for service, found in files.items():
        write(FOLDER / f"{service}.txt", found)


def read(path: Path) -> list[Entry]:
    """The entries of a file."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [_entry(block.strip("\n").split("\n")) for block in blocks if block.strip()]


def write(path: Path, entries: Sequence[Entry]) -> None:
    """Write a file."""
    path.write_text("\n".join(entry.text() for entry in entries), encoding="utf-8")


def _entry(lines: list[str]) -> Entry:
    said = next(number for number, line in enumerate(lines) if line.startswith("> "))
    _, name, *groups = lines[said].split()
    return Entry(TARGETS[name], bytes_of(groups), tuple(lines[said + 1 :]))


def digits(raw: bytes) -> str:
    """Bytes in the form of a file."""
    found: list[str] = []
    position = 0
    for run in _RUNS.finditer(raw):
        found += [raw[position : run.start()].hex(), f"{run[1].hex()}*{len(run[0])}"]
        position = run.end()
    return " ".join(group for group in (*found, raw[position:].hex()) if group)


def bytes_of(groups: list[str]) -> bytes:
    """The bytes that `digits` wrote."""
    raw = b""
    for group in groups:
        byte, _, count = group.partition("*")
        raw += bytes.fromhex(byte) * int(count or 1)
    return raw


def shortened(text: str) -> str:
    """A line of bounded length, without parts that differ between runs or versions of the library."""
    text = re.sub(r"(Error parsing message).*", r"\1", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "(an id)", text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def told(entry: Entry) -> str:
    """The message as text, or the defect of a malformed one."""
    try:
        message = GetMessageClass(entry.target.request).FromString(entry.raw)
    except DecodeError:
        return "not a message"
    text = text_format.MessageToString(message, as_one_line=True)
    return shortened("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)) or "empty"
