"""The Standard Workload Format: 18 numbers for each job, after comments that describe the cluster."""

from collections.abc import Iterator
from math import isfinite

from licorne_server.lab.simulation.traces.files import lines_of
from licorne_server.lab.simulation.traces.model import (
    Files,
    LeftOut,
    Part,
    Trace,
    TraceError,
    TraceJob,
    TraceLine,
    bad_value,
)

KIND = "swf"
FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
COMMENT = ";"
_CANCELLED, _PARTS = 5, (2, 3, 4)
_KIB = 1024


def swf(files: Files) -> Trace:
    """Jobs of SWF files.

    The processors are the requested ones, or else the allocated ones. A cancelled job that has run counts.
    """
    trace = Trace(KIND, splits=True)
    trace.jobs = trace.kept(_jobs(files, trace))
    return trace


def _jobs(files: Files, trace: Trace) -> Iterator[TraceJob | LeftOut]:
    for path in files:
        for line in lines_of(path):
            text = line.text.strip()
            if text.startswith(COMMENT):
                _note(text, trace)
            elif text:
                yield _job(_numbers(line, str(path)))


def _note(comment: str, trace: Trace) -> None:
    """Set the size of the cluster from a comment of the header."""
    name, _, value = comment.lstrip("; \t").partition(":")
    number = value.strip().split(" ")[0]
    if number.isascii() and number.isdigit() and len(number) < 10:
        match name.strip().lower():
            case "maxnodes":
                trace.nodes += int(number)
            case "maxprocs":
                trace.processors += int(number)


def _numbers(line: TraceLine, file: str) -> list[float]:
    cells = line.text.split()
    if len(cells) != len(FIELDS):
        raise TraceError(f"{len(cells)} fields, expected {len(FIELDS)}", file=file, line=line.number)
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        numbers = []
    if not numbers or not all(map(isfinite, numbers)):
        at = next(at for at, cell in enumerate(cells) if not _is_number(cell))
        field = f"field {at + 1} ({FIELDS[at]})"
        raise TraceError(bad_value(cells[at], "number"), file=file, line=line.number, field=field)
    return numbers


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _job(numbers: list[float]) -> TraceJob | LeftOut:
    """The job of a line, or the reason why it cannot be played."""
    number, submit, waited, runtime, allocated, _, _, asked, requested, memory, status = numbers[:11]
    user, group, executable, queue, partition = map(_name, numbers[11:16])
    processors = asked if asked > 0 else allocated
    if status in _PARTS:
        return LeftOut.PART_OF_A_JOB
    if submit < 0:
        return LeftOut.NO_SUBMISSION
    if status == _CANCELLED and runtime <= 0:
        return LeftOut.NEVER_STARTED
    if runtime < 0:
        return LeftOut.NO_RUNTIME
    if processors <= 0:
        return LeftOut.NO_SIZE
    return TraceJob(
        job=_name(number),
        submit=submit,
        runtime=runtime,
        parts=(Part(1, processors, memory=max(0.0, memory) * _KIB * processors),),
        requested=max(0.0, requested),
        waited=waited if waited >= 0 else -1.0,
        user=user,
        group=group,
        queue=queue,
        partition=partition,
        name=executable,
    )


def _name(number: float) -> str:
    """The text of a number that stands for a name; empty if unknown."""
    return "" if number < 0 else f"{number:.0f}"
