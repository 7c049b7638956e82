"""Traces with one row for each job: Helios, and Philly as CSV."""

from collections.abc import Callable, Iterator

from licorne_server.lab.simulation.traces.files import TraceRow, rows_of
from licorne_server.lab.simulation.traces.model import Files, LeftOut, Part, Trace, TraceJob

HELIOS = "helios"
HELIOS_COLUMNS = ("job_id", "gpu_num", "cpu_num", "submit_time", "start_time")
PHILLY_COLUMNS = ("jobid", "vc", "submitted_time", "start_time", "end_time", "gpus")
PHILLY = "philly"


def helios(files: Files) -> Trace:
    """Jobs of Helios' ``cluster_log.csv``: GPUs and processors of a job are divided over its nodes."""
    return _trace(HELIOS, files, HELIOS_COLUMNS, _helios_parts)


def philly_table(files: Files) -> Trace:
    """Jobs of Philly as CSV: the keys of its JSON as columns, and `gpus` as a number."""
    trace = _trace(PHILLY, files, PHILLY_COLUMNS, lambda row: Part(1, 0.0, row.number("gpus", missing=0.0)))
    trace.splits = True
    return trace


def _helios_parts(row: TraceRow) -> Part:
    nodes = max(1, int(row.number("node_num", missing=1.0)))
    gpus, cores = row.number("gpu_num", missing=0.0), row.number("cpu_num", missing=0.0)
    return Part(nodes, cores / nodes, gpus / nodes)


def _trace(kind: str, files: Files, needed: tuple[str, ...], part: Callable[[TraceRow], Part]) -> Trace:
    trace = Trace(kind)
    trace.jobs = trace.kept(_jobs(files, needed, part))
    return trace


def _jobs(
    files: Files, needed: tuple[str, ...], part: Callable[[TraceRow], Part]
) -> Iterator[TraceJob | LeftOut]:
    for path in files:
        for row in rows_of(path, needed=needed):
            yield _job(row, part)


def _job(row: TraceRow, part: Callable[[TraceRow], Part]) -> TraceJob | LeftOut:
    submit = row.time("submit_time", "submitted_time")
    start, end = row.time("start_time"), row.time("end_time")
    members = part(row)
    duration = row.number("duration", missing=-1.0)
    if submit is None:
        return LeftOut.NO_SUBMISSION
    if start is None:
        return LeftOut.NEVER_STARTED
    if duration < 0:
        if end is None or end < start:
            return LeftOut.NO_END
        duration = end - start
    if members.cores <= 0 and members.gpus <= 0:
        return LeftOut.NO_SIZE
    return TraceJob(
        job=row.text("job_id", "jobid"),
        submit=submit,
        runtime=duration,
        parts=(members,),
        waited=max(0.0, start - submit),
        user=row.text("user"),
        queue=row.text("vc"),
    )
