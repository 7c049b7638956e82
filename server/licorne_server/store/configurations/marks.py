"""Marks of operators on nodes, queues and applications of an RM: values, stored form, form of the core."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from licorne_core.messages.operators import Marks, OperatorMark
from licorne_core.values.ids import PartitionName
from licorne_server.wire.features import table

MAX_MARKS = 10_000
"""Marks of operators retained per RM, at most."""


class MarkKind(Enum):
    """Kind of an object that an operator has marked."""

    NODE = "node"
    """A cordoned node."""
    QUEUE = "queue"
    """A stopped queue."""
    HOLD = "hold"
    """A held application."""
    CHANGE = "change"
    """An application with another priority or queue."""

    @property
    def is_of_application(self) -> bool:
        """True if the mark is dropped with its application."""
        return self in (MarkKind.HOLD, MarkKind.CHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An operator's act on a node, queue or application.

    `partition` is its normalized name. `by` is the operator, if known, `time` the nanoseconds since
    1970, `why` the operator's message. A change has the new priority of the application's asks, None for
    their own, and the new queue, empty for none. A drained node has the terms
    of its `drain`, a dataclass.
    """

    kind: MarkKind
    partition: PartitionName
    name: str
    by: str = ""
    time: int = 0
    why: str = ""
    priority: int | None = None
    queue: str = ""
    drain: Any = None

    @property
    def operator_mark(self) -> OperatorMark:
        """The author, time and reason, for the core."""
        return OperatorMark(by=self.by, time=self.time / 1e9, message=self.why)

    @property
    def key(self) -> tuple[MarkKind, PartitionName, str]:
        """Identity of the marked thing."""
        return self.kind, self.partition, self.name


def marks_of_core(marks: Sequence[Mark]) -> Marks:
    """Convert marks for the core."""
    return {extension: of(marks) for extension, of in table("MARKED").items()}


def encode_mark(mark: Mark) -> dict[str, Any]:
    """Convert a mark to its stored form."""
    return {
        "kind": mark.kind.value,
        "partition": mark.partition,
        "name": mark.name,
        "by": mark.by,
        "time": mark.time,
        "why": mark.why,
        **({} if mark.priority is None else {"priority": mark.priority}),
        **({"queue": mark.queue} if mark.queue else {}),
        **({} if mark.drain is None else {"drain": asdict(mark.drain)}),
    }


def decode_mark(item: Mapping[str, Any]) -> Mark:
    """Read a mark from its stored form.

    Raises:
        KeyError, TypeError, ValueError: it is no such form.
    """
    drain, read_drain = item.get("drain"), table("TERMS").get("drain")
    return Mark(
        kind=MarkKind(item["kind"]),
        partition=PartitionName(str(item["partition"])),
        name=str(item["name"]),
        by=str(item["by"]),
        time=int(item["time"]),
        why=str(item["why"]),
        priority=None if item.get("priority") is None else int(item["priority"]),
        queue=str(item.get("queue", "")),
        drain=read_drain(drain) if drain and read_drain else None,
    )
