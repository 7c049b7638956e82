"""Stopped queues in the journal."""

from licorne_core.extensions.queue_stops.messages import QueueStoppedSet, SetQueueStopped
from licorne_server.journal.forms import FLAG, MARK, NAMED, TEXT, Row, pairs

MARKS = {"queue_stops": ("queues", pairs(NAMED, MARK))}
COMMANDS = (Row(SetQueueStopped, rm_id=TEXT, partition=TEXT, queue=TEXT, stopped=FLAG, mark=MARK),)
SUMMED = {QueueStoppedSet: {"changed": None, "state": None}}
