"""Holds, priorities and moves of applications in the journal."""

from licorne_core.extensions.holds.messages import (
    ApplicationChanged,
    ApplicationHeld,
    ApplicationMarks,
    ChangeApplication,
    HoldApplication,
    MarksEnded,
)
from licorne_server.journal.forms import FLAG, MARK, NAMED, TEXT, WHOLE, Row, optional, pairs

_MARKS = Row(
    ApplicationMarks, hold=optional(MARK), change=optional(MARK), priority=optional(WHOLE), queue=TEXT
)

MARKS = {"holds": ("applications", pairs(NAMED, _MARKS))}
RECORDS = (_MARKS,)
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
