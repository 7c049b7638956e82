"""Google's cells of 2019: events of collections (jobs) and of their instances, exported as CSV."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from licorne_server.lab.simulation.traces.files import TraceRow, header_of, rows_of
from licorne_server.lab.simulation.traces.model import Files, LeftOut, Part, Trace, TraceJob, bad_value

KIND = "google"
NEEDED = ("time", "type", "collection_id")
EVENTS = (
    "SUBMIT",
    "QUEUE",
    "ENABLE",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
)
"""Types of events; the number of a type is its index."""

_NUMBERS = {str(number): event for number, event in enumerate(EVENTS)}
_ENDS = frozenset({"FAIL", "FINISH", "KILL", "LOST"})
_MICROSECOND = 1e-6
_AFTER = float(2**62)
"""Time in microseconds that stands for any time after the end of the trace."""


def is_google(path: Path) -> bool:
    """True if the first row has the columns of events."""
    return set(NEEDED) <= set(header_of(path))


@dataclass(slots=True)
class _Collection:
    """The data of a collection, from its events; times are in seconds."""

    submit: float | None = None
    start: float | None = None
    end: float | None = None
    is_job: bool = True
    user: str = ""
    name: str = ""
    queue: str = ""
    priority: int = 0
    sizes: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Cores and memory of each instance, by its index."""


def google(files: Files) -> Trace:
    """Jobs of a cell. Sizes are shares of the cell's largest machine; instances of a job start one by one."""
    trace = Trace(KIND, relative=True, gangs=False)
    trace.jobs = trace.kept(_jobs(files))
    return trace


def _jobs(files: Files) -> Iterator[TraceJob | LeftOut]:
    found: dict[str, _Collection] = {}
    for path in files:
        for row in rows_of(path, needed=NEEDED):
            _take(found.setdefault(row.text("collection_id"), _Collection()), row)
    for name, collection in found.items():
        yield _job(name, collection)


def _take(collection: _Collection, row: TraceRow) -> None:
    time, event = row.number("time"), _event(row)
    if event == "SUBMIT":
        seconds = time * _MICROSECOND
        collection.submit = seconds if collection.submit is None else min(collection.submit, seconds)
    elif event == "SCHEDULE":
        seconds = time * _MICROSECOND
        collection.start = seconds if collection.start is None else min(collection.start, seconds)
    elif event in _ENDS and time < _AFTER:
        collection.end = max(collection.end or 0.0, time * _MICROSECOND)
    if row.text("collection_type") in ("1", "ALLOC_SET"):
        collection.is_job = False
    collection.user = row.text("user") or collection.user
    collection.name = row.text("collection_logical_name") or collection.name
    collection.queue = row.text("scheduling_class") or collection.queue
    collection.priority = int(row.number("priority", missing=float(collection.priority)))
    if row.text("instance_index"):
        cores = row.number("resource_request.cpus", "resource_request_cpus", "cpus", missing=0.0)
        memory = row.number("resource_request.memory", "resource_request_memory", "memory", missing=0.0)
        if cores > 0 or memory > 0:
            collection.sizes[int(row.number("instance_index"))] = (cores, memory)


def _event(row: TraceRow) -> str:
    text = row.text("type")
    if text in _NUMBERS:
        return _NUMBERS[text]
    if text.upper() not in EVENTS:
        raise row.error("type", bad_value(text, "type of events"))
    return text.upper()


def _job(name: str, collection: _Collection) -> TraceJob | LeftOut:
    if not collection.is_job:
        return LeftOut.NOT_A_JOB
    if not collection.submit:
        # Zero is the time of events before the beginning of the trace.
        return LeftOut.NO_SUBMISSION
    if collection.start is None:
        return LeftOut.NEVER_STARTED
    if collection.end is None or collection.end < collection.start:
        return LeftOut.NO_END
    if not collection.sizes:
        return LeftOut.NO_SIZE
    sizes: dict[tuple[float, float], int] = {}
    for size in collection.sizes.values():
        sizes[size] = sizes.get(size, 0) + 1
    return TraceJob(
        job=name,
        submit=collection.submit,
        runtime=collection.end - collection.start,
        parts=tuple(Part(count, cores, 0.0, memory) for (cores, memory), count in sizes.items()),
        waited=max(0.0, collection.start - collection.submit),
        user=collection.user,
        queue=collection.queue,
        name=collection.name,
        priority=collection.priority,
    )
