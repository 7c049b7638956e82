"""Cordons and drains in the journal, and in reports of nodes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from licorne.v1 import admin_pb2
from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.drains.messages import (
    Cordon,
    DrainNode,
    DrainTerms,
    NodeDrainBegun,
    NodeSchedulableSet,
    SetNodeSchedulable,
)
from licorne_core.extensions.drains.reports import DrainReport
from licorne_core.views.fields import Moment, renamed
from licorne_server.engine.journal.forms import FLAG, MARK, NAMED, NUMBER, TEXT, WHOLE, Row, optional, pairs
from licorne_server.wire.responses import nanoseconds

_TERMS = Row(DrainTerms, start=NUMBER, deadline=optional(NUMBER), allocations=WHOLE)

_CORDON = Row(Cordon, mark=MARK, drain=optional(_TERMS))

MARKS = {"drains": ("nodes", pairs(NAMED, _CORDON))}
MARKED = {
    "drains": lambda marks: {
        (mark.partition, mark.name): Cordon(mark=mark.operator_mark, drain=mark.drain)
        for mark in marks
        if mark.kind.value == "node"
    }
}
RECORDS = (_TERMS, _CORDON)
COMMANDS = (
    Row(SetNodeSchedulable, rm_id=TEXT, partition=TEXT, node_id=TEXT, schedulable=FLAG, mark=MARK),
    Row(DrainNode, rm_id=TEXT, partition=TEXT, node_id=TEXT, seconds=optional(NUMBER), mark=MARK),
)
SUMMED = {
    NodeSchedulableSet: {"changed": None, "allocations": None},
    NodeDrainBegun: {"terms.start": None, "terms.deadline": None, "terms.allocations": None, "exempt": None},
}

_NUMBERS = {name: name for name in ("allocations", "remaining", "stopping", "exempt")}
_TIMES = {"started": "start_time", "deadline": "deadline"}


def _terms(stored: Mapping[str, Any]) -> DrainTerms:
    """The terms in a stored form; raises KeyError, TypeError or ValueError."""
    deadline = stored["deadline"]
    return DrainTerms(
        start=float(stored["start"]),
        deadline=None if deadline is None else float(deadline),
        allocations=int(stored["allocations"]),
    )


TERMS = {"drain": _terms}


def _shown(of: Callable[[DrainReport], Any]) -> tuple[str, Callable[[DrainReport | None], Any]]:
    """A field of a node's report and its conversion; None without a drain."""
    return "drain", lambda report: report and of(report)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1e3)


NODE: Final = {"drain": _shown(renamed(DrainReport, {**_TIMES, **_NUMBERS}, {Moment: nanoseconds}, dict))}
NODE_OPTIONAL = {"drain": "drain"}
NODE_ON_PAGE: Final = {
    "drain": _shown(renamed(DrainReport, {**_TIMES, **_NUMBERS}, {Moment: _milliseconds}, dict))
}
NODE_OF_STATE: Final = {
    "drain": _shown(
        renamed(
            DrainReport,
            {"start_time": "start_time", "deadline": "deadline", **_NUMBERS},
            {Moment: nanoseconds},
            pb.NodeDrain,
        )
    )
}

CALLS: dict[str, tuple[type[Message], type[Message]]] = {
    "SetNodeSchedulable": (admin_pb2.SetNodeSchedulableRequest, admin_pb2.SetNodeSchedulableResponse),
    "DrainNode": (admin_pb2.DrainNodeRequest, admin_pb2.DrainNodeResponse),
}
ACTS: Final = {
    "cordon": {"method": "SetNodeSchedulable", "name": "node_id", "fixed": {"schedulable": False}},
    "uncordon": {"method": "SetNodeSchedulable", "name": "node_id", "fixed": {"schedulable": True}},
    "drain": {"method": "DrainNode", "name": "node_id"},
}
