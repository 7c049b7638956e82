"""Stopped queues in the journal."""

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.queue_stops.messages import QueueStoppedSet, SetQueueStopped
from licorne_server.engine.journal.forms import FLAG, MARK, NAMED, TEXT, Row, pairs

MARKS = {"queue_stops": ("queues", pairs(NAMED, MARK))}
MARKED = {
    "queue_stops": lambda marks: {
        (mark.partition, mark.name): mark.operator_mark for mark in marks if mark.kind.value == "queue"
    }
}
COMMANDS = (Row(SetQueueStopped, rm_id=TEXT, partition=TEXT, queue=TEXT, stopped=FLAG, mark=MARK),)
SUMMED = {QueueStoppedSet: {"changed": None, "state": None}}

CALLS = {"SetQueueStopped": (pb.SetQueueStoppedRequest, pb.SetQueueStoppedResponse)}
ACTS = {
    "stop": {"method": "SetQueueStopped", "name": "queue", "fixed": {"stopped": True}},
    "start": {"method": "SetQueueStopped", "name": "queue", "fixed": {"stopped": False}},
}
