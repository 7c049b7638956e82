"""Cordons and drains in the journal."""

from licorne_core.extensions.drains.messages import (
    Cordon,
    DrainNode,
    DrainTerms,
    NodeDrainBegun,
    NodeSchedulableSet,
    SetNodeSchedulable,
)
from licorne_server.journal.forms import FLAG, MARK, NAMED, NUMBER, TEXT, WHOLE, Row, optional, pairs

_TERMS = Row(DrainTerms, start=NUMBER, deadline=optional(NUMBER), allocations=WHOLE)

_CORDON = Row(Cordon, mark=MARK, drain=optional(_TERMS))

MARKS = {"drains": ("nodes", pairs(NAMED, _CORDON))}
RECORDS = (_TERMS, _CORDON)
COMMANDS = (
    Row(SetNodeSchedulable, rm_id=TEXT, partition=TEXT, node_id=TEXT, schedulable=FLAG, mark=MARK),
    Row(DrainNode, rm_id=TEXT, partition=TEXT, node_id=TEXT, seconds=optional(NUMBER), mark=MARK),
)
SUMMED = {
    NodeSchedulableSet: {"changed": None, "allocations": None},
    NodeDrainBegun: {"terms.start": None, "terms.deadline": None, "terms.allocations": None, "exempt": None},
}
