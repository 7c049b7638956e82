"""Philly's job log: a JSON list with one object for each job, and the attempts to run it."""

from collections.abc import Iterator
from typing import Any

from licorne_server.lab.simulation.traces.files import TraceRow, objects_of
from licorne_server.lab.simulation.traces.job_tables import PHILLY
from licorne_server.lab.simulation.traces.model import Files, LeftOut, Part, Trace, TraceJob


def philly(files: Files) -> Trace:
    """Jobs of Philly's ``cluster_job_log``.

    The run time is the total of all attempts; the size is the size of the largest attempt.
    """
    trace = Trace(PHILLY, splits=True)
    trace.jobs = trace.kept(_jobs(files))
    return trace


def _jobs(files: Files) -> Iterator[TraceJob | LeftOut]:
    for path in files:
        for row in objects_of(path):
            yield _job(row)


def _job(row: TraceRow) -> TraceJob | LeftOut:
    submit = row.time("submitted_time")
    attempts = _list(row, "attempts", row.value("attempts"))
    gpus, runtime, first, is_over = 0, 0.0, None, True
    for number, each in enumerate(attempts):
        place = f"attempts[{number}]"
        attempt = _object(row, place, each)
        details = _list(row, f"{place}.detail", attempt.value("detail"))
        used = (_object(row, f"{place}.detail", detail).value("gpus") for detail in details)
        gpus = max(gpus, sum(len(_list(row, f"{place}.detail.gpus", names)) for names in used))
        start, end = attempt.time("start_time"), attempt.time("end_time")
        is_over = end is not None
        if start is not None and end is not None and end >= start:
            runtime += end - start
            first = start if first is None else min(first, start)
    if submit is None:
        return LeftOut.NO_SUBMISSION
    if not attempts:
        return LeftOut.NEVER_STARTED
    if first is None or not is_over:
        return LeftOut.NO_END
    if not gpus:
        return LeftOut.NO_SIZE
    return TraceJob(
        job=row.text("jobid"),
        submit=submit,
        runtime=runtime,
        parts=(Part(1, 0.0, gpus),),
        waited=max(0.0, first - submit),
        user=row.text("user"),
        queue=row.text("vc"),
    )


def _list(row: TraceRow, field: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise row.error(field, "expected a list")
    return value


def _object(row: TraceRow, field: str, value: Any) -> TraceRow:
    if not isinstance(value, dict):
        raise row.error(field, "expected an object")
    return row.within(field, value)
