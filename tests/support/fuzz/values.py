"""Contents of fields: valid values, and those at the bounds of a type.

A message is a tree of pieces, each of which may be arbitrarily wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Union

from google.protobuf.descriptor import FieldDescriptor as Field

from licorne_server.wire.framing import encode_varint
from support.wire.items import BAD, GOOD

FUZZED = "fuzz"
"""The RM that sends the messages."""
BYSTANDER = "good"
"""The other RM, for which no message is sent."""

EDGES = (
    *(0, 1, 2, -1, -2, 127, 128, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32),
    *(2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 10**18, -(10**18)),
)
TEXTS = (
    *("", " ", ".", "..", "/", "*", "?", "[", "]", "[]x", "root", "ROOT.A", "a b", "-1", "None"),
    *("\0", "a\0b", "\n", "a\r\nb", "\t", "\x7f", "\x85", "\u2028", "\u202e evil \u202c", "\ufeff"),
    *("\u200b", "é", "e\u0301", "\U0001f984", "\ud7ff", "\uffff", "%s%n", "{0}", "${x}", "'\";--"),
    *("../../etc/passwd", "[fuzz]default", f"[{BYSTANDER}]default", "a.b.c.d.e.f.g", "x" * 64),
    *("x" * 128, "x" * 129, "x" * 512, "x" * 513, "é" * 300, "a." * 60 + "a", "[" * 900),
)
LONG = ("x" * 70_000, "[" * 30_000, '{"a":' * 5_000, ".".join("abcdefgh") * 600, "\0" * 5_000)
NO_UTF8 = (b"\xff", b"\xc3\x28", b"a\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28")

NODES = ("n0", "n1", "n2", "n3")
APPLICATIONS = ("a0", "a1", "a2", "a3")
KEYS = tuple(f"k{n}" for n in range(8))
PARTITIONS = ("", "", "default", "default", "[fuzz]default", "second", f"[{BYSTANDER}]default")
QUEUES = ("root.a", "root.b", "root.p.x", "root.p", "root", "a", "", "root.new.one", "root.A")
TAGS = (
    *("namespace", "namespace.resourcequota", "namespace.resourceguaranteed", "Namespace"),
    *("namespace.resourcemaxapps", "yunikorn.apache.org/creationTime", "licorne/predicate-class"),
    *("yunikorn.apache.org/requirednode", "licorne/preemption-cost", "foreign", "foreign"),
    *("kubernetes.io/meta/podname", "si/hostname", "si/node-partition", "si/zone", "color"),
)
TAG_VALUES = (
    *("ns", "n0", "n1", "10", "-10", "1.5", "1e9", "true", "default", "static", "a", "1" * 30),
    '{"resources":{"vcore":{"value":5}}}',
    '{"resources":{"vcore":{"value":-1},"memory":{"value":"9223372036854775808"}}}',
    '{"resources":[]}',
)
RESOURCES = ("vcore", "vcore", "memory", "memory", "pods", "nvidia.com/gpu")
BUDGETS = (
    *("", "budgets: []", "budgets: [{name: b, limit: {vcore: 1000}, members: [{rm: fuzz}]}]"),
    *("budgets: [{name: b, limit: {vcore: -1}}]", "budgets: [{name: b}, {name: b}]", "budgets: &a [*a]"),
)
"""Budgets that neither stop the fuzzed RM nor affect the other one."""
CONFIGS = tuple(config.text for config in (*GOOD, *GOOD, *BAD))
PLAIN = GOOD[0].text

Names = tuple[str, ...]
_BY_NAME: dict[str, Names] = {
    **dict.fromkeys(("rmID", "rm_id"), ("", FUZZED, FUZZED)),
    **dict.fromkeys(("nodeID", "node_id", "node_ids"), (*NODES, "n0")),
    **dict.fromkeys(("applicationID", "application_id"), APPLICATIONS),
    **dict.fromkeys(("allocationKey", "allocation_key"), KEYS),
    **dict.fromkeys(("partitionName", "partition", "partition_name"), PARTITIONS),
    **dict.fromkeys(("queueName", "queue"), QUEUES),
    **dict.fromkeys(("user", "name"), ("ann", "bob", "*")),
    "groups": ("dev", "ops"),
    "taskGroupName": ("", "", "w", "lead"),
    "gangSchedulingStyle": ("", "Soft", "Hard", "soft"),
    "config": CONFIGS,
    "budgets": BUDGETS,
    "by": ("", "queue", "user", "group", "node"),
    "policyGroup": ("", "queues"),
    "state": ("", "active", "completed", "rejected", "Running"),
    "page_token": ("", "root.a", "n0", "a0", "3", '["n0", 0.0, "a0", "k0"]', "[[[["),
    "json": ('{"a": [1, 2]}', "[", "NaN", "[" * 2_000),
    "resume_token": ("",),
    "instance": ("",),
}
_NUMBERS: dict[str, tuple[int, ...]] = {
    "value": (0, 1, 1, 2, 3, 5),
    "protocol": (1, 1, 1, 1, 1, 1, 0, 2),
    "priority": (0, 0, 1, -1, 5),
    "instance": (1, 2, 3),
    "acknowledged": (0, 0, 0, 0, 1),
    "id": (1, 2, 3, 4),
    "index": (0, 1, -1),
    "executionTimeoutMilliSeconds": (0, 0, 1000, 60_000),
    "deadline_milliseconds": (0, 10, 100, 2000),
    "start": (0, 1, 5),
}


def text(rng: Random, name: str, wildness: float) -> bytes:
    """The bytes of a text field of that name; `wildness` is the probability of an unusual value."""
    if rng.random() >= wildness:
        return rng.choice(_BY_NAME.get(name, ("", "x", "red"))).encode()
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(NO_UTF8)
    if kind < 0.15:
        return rng.choice(LONG).encode()
    if kind < 0.3 and name == "config":
        return _misspelt(rng, rng.choice(CONFIGS)).encode()
    return rng.choice(TEXTS).encode()


def _misspelt(rng: Random, config: str) -> str:
    """A configuration in which a part is missing, doubled or replaced."""
    begin = rng.randrange(len(config))
    end = min(len(config), begin + rng.randint(0, 8))
    return config[:begin] + rng.choice(("", "-", ": ", "{", "\t", "&a ", "*a", "9")) + config[end:]


def number(rng: Random, name: str, wildness: float) -> int:
    """The value of a number of that name."""
    if rng.random() < wildness:
        return rng.choice(EDGES)
    return rng.choice(_NUMBERS.get(name, (0, 1, 2)))


def entry_key(rng: Random, field: str, wildness: float) -> bytes:
    """A key of the map of that name."""
    if rng.random() < wildness:
        return text(rng, "", 1.0)
    return rng.choice(RESOURCES if field == "resources" else TAGS).encode()


def entry_text(rng: Random, wildness: float) -> bytes:
    """A value of a map of texts."""
    return text(rng, "", 1.0) if rng.random() < wildness else rng.choice(TAG_VALUES).encode()


def choice_of(rng: Random, field: Field, wildness: float) -> int:
    """A value of an enum, or an unknown one."""
    if rng.random() < wildness:
        return rng.choice((-1, 99, 2**31 - 1, -(2**31), 2**40))
    assert field.enum_type is not None, f"{field.full_name} is no enum"
    known: int = rng.choice(field.enum_type.values).number
    return known


NUMBERS = frozenset({Field.TYPE_INT64, Field.TYPE_INT32, Field.TYPE_UINT64, Field.TYPE_UINT32})
"""The types for which `number` has values."""


VARINT, FIXED64, LENGTH, BEGIN_GROUP, END_GROUP, FIXED32 = range(6)


@dataclass(frozen=True, slots=True)
class Piece:
    """One field: its number, its wire type and its contents."""

    number: int
    kind: int
    value: Union[int, bytes, "tuple[Piece, ...]"]
    longer: int = 0
    """The number of unnecessary bytes in its tag, which are allowed."""

    def encoded(self) -> bytes:
        """The bytes of the field."""
        tag = _lengthened(encode_varint(self.number << 3 | self.kind), self.longer)
        match self.value:
            case int() as number:
                width = {FIXED64: 8, FIXED32: 4}.get(self.kind)
                if width is None:
                    return tag + encode_varint(number)
                return tag + (number % (1 << 8 * width)).to_bytes(width, "little")
            case bytes() as raw if self.kind == LENGTH:
                return tag + encode_varint(len(raw)) + raw
            case bytes() as raw:
                return tag + raw
            case pieces:
                return replace(self, value=encoded(pieces)).encoded()


def _lengthened(number: bytes, longer: int) -> bytes:
    """The same number in more bytes."""
    if not longer:
        return number
    return number[:-1] + bytes([number[-1] | 0x80]) + b"\x80" * (longer - 1) + b"\0"


def encoded(pieces: Sequence[Piece]) -> bytes:
    """The bytes of a message."""
    return b"".join(piece.encoded() for piece in pieces)


def groups(number: int, depth: int, *, closed: bool) -> Piece:
    """Nested groups of an unknown field."""
    opening = encode_varint(number << 3 | BEGIN_GROUP) * (depth - 1)
    closing = encode_varint(number << 3 | END_GROUP) * depth if closed else b""
    return Piece(number, BEGIN_GROUP, opening + closing)
