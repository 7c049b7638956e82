"""Seeded defects in stopped queues: the end of their reservations, and the restart of a queue."""

from mutants.defect import Defect
from mutants.operators import drop

QUEUE_STOPS = (
    Defect(
        "a-start-wakes-nobody",
        "queue_stops:_start",
        drop("mark_queue"),
        "asks of a restarted queue are not woken",
        ("extensions/queue_stops/test_queue_stops",),
    ),
    Defect(
        "a-stop-keeps-waits",
        "_QueueStop._let_go",
        drop("give_up_waits"),
        "a reservation of a stopped queue keeps its node",
        ("extensions/queue_stops/test_queue_stops",),
    ),
    Defect(
        "a-stop-is-forgotten",
        "_QueueStop.steps",
        drop("stopped"),
        "a stopped queue is active after its RM has registered again",
        ("extensions/queue_stops/test_queue_stops",),
        nth=2,
    ),
)
