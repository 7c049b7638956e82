"""Holds, priorities and moves of applications in the journal."""

from collections.abc import Iterable
from typing import Any

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.holds.messages import (
    UNMARKED,
    ApplicationChanged,
    ApplicationHeld,
    ApplicationMarks,
    ChangeApplication,
    HoldApplication,
    MarksEnded,
)
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_server.engine.journal.forms import FLAG, MARK, NAMED, TEXT, WHOLE, Row, optional, pairs

_MARKS = Row(
    ApplicationMarks, hold=optional(MARK), change=optional(MARK), priority=optional(WHOLE), queue=TEXT
)

MARKS = {"holds": ("applications", pairs(NAMED, _MARKS))}
RECORDS = (_MARKS,)


def _marked(marks: Iterable[Any]) -> dict[tuple[PartitionName, str], ApplicationMarks]:
    """The operators' marks for the core, by application."""
    of: dict[tuple[PartitionName, str], ApplicationMarks] = {}
    # Holds precede changes, each in stored order; an application with both is at the position of its hold.
    for kind in ("hold", "change"):
        for mark in marks:
            if mark.kind.value != kind:
                continue
            place = mark.partition, mark.name
            before = of.get(place, UNMARKED)
            if kind == "hold":
                of[place] = before._replace(hold=mark.operator_mark)
            else:
                of[place] = before._replace(
                    change=mark.operator_mark, priority=mark.priority, queue=QueuePath(mark.queue)
                )
    return of


MARKED = {"holds": _marked}
COMMANDS = (
    Row(HoldApplication, rm_id=TEXT, partition=TEXT, app_id=TEXT, held=FLAG, mark=MARK),
    Row(
        ChangeApplication,
        rm_id=TEXT,
        partition=TEXT,
        app_id=TEXT,
        priority=optional(WHOLE),
        reset_priority=FLAG,
        queue=TEXT,
        mark=MARK,
    ),
)
SUMMED = {
    ApplicationHeld: {"changed": None, "asks": None, "allocations": None},
    ApplicationChanged: {"changed": None, "queue": None, "marks.priority": None, "marks.queue": None},
}
NOT_SUMMED = (MarksEnded,)
UNMARKS = {MarksEnded: lambda effect: effect.applications}

CALLS = {
    "HoldApplication": (pb.HoldApplicationRequest, pb.HoldApplicationResponse),
    "ChangeApplication": (pb.ChangeApplicationRequest, pb.ChangeApplicationResponse),
}
ACTS: dict[str, dict[str, Any]] = {
    "hold": {"method": "HoldApplication", "name": "application_id", "fixed": {"held": True}},
    "resume": {"method": "HoldApplication", "name": "application_id", "fixed": {"held": False}},
    # A new priority for an application (`priority`, `reset_priority`), or a new leaf (`queue`).
    "priority": {"method": "ChangeApplication", "name": "application_id"},
    "queue": {"method": "ChangeApplication", "name": "application_id"},
}
