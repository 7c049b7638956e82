"""Alibaba's PAI: tables of jobs, of their tasks and, optionally, of the instances of tasks.

The published tables have no row of column names; a row of column names is used if there is one. Jobs are
known before tasks, and tasks before instances, so each file is read once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from licorne_server.lab.simulation.traces.files import TraceRow, header_of, rows_of
from licorne_server.lab.simulation.traces.model import Files, LeftOut, Part, Trace, TraceError, TraceJob

KIND = "pai"
TABLES = {
    "job": ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    "task": (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
        "gpu_type",
    ),
    "instance": (
        "job_name",
        "task_name",
        "inst_name",
        "worker_name",
        "inst_id",
        "status",
        "start_time",
        "end_time",
        "machine",
    ),
}
"""Columns of each table, in order."""

_NEEDED = {
    "job": ("job_name", "inst_id", "user"),
    "task": ("job_name", "task_name", "inst_num"),
    "instance": ("job_name", "task_name", "worker_name"),
}
_GIB = 1024**3
_PERCENT = 100.0


def table_of(path: Path) -> str:
    """The table to which a file belongs, by its name or its columns; empty if it belongs to none."""
    for name in TABLES:
        if f"{name}_table" in path.name.lower():
            return name
    found = set(header_of(path))
    return next((name for name, needed in _NEEDED.items() if set(needed) <= found), "")


@dataclass(slots=True)
class _Job:
    """A job with the data of its tasks and instances."""

    row: TraceRow
    submit: float | None
    parts: list[Part] = field(default_factory=list)
    start: float | None = None
    end: float | None = None

    def ran(self, start: float | None, end: float | None) -> None:
        """Record a run of a task or an instance."""
        if start is not None:
            self.start = start if self.start is None else min(self.start, start)
        if end is not None:
            self.end = end if self.end is None else max(self.end, end)


def pai(files: Files) -> Trace:
    """Jobs of PAI. All members of a job run from its first start to its last end.

    Raises:
        TraceError: the tables of jobs and tasks are not among the files.
    """
    tables = {table: [path for path in files if table_of(path) == table] for table in TABLES}
    for table in ("job", "task"):
        if not tables[table]:
            raise TraceError(f"a trace of the kind '{KIND}' needs its {table} table too", file=str(files[0]))
    trace = Trace(KIND)
    trace.jobs = trace.kept(_jobs(tables))
    return trace


def _jobs(tables: dict[str, list[Path]]) -> Iterator[TraceJob | LeftOut]:
    jobs: dict[str, _Job] = {}
    for row in _rows(tables, "job"):
        jobs[row.text("job_name")] = _Job(row, row.time("start_time"))
    for row in _rows(tables, "task"):
        _add_task(jobs.get(row.text("job_name")), row)
    for row in _rows(tables, "instance"):
        start, end = row.time("start_time"), row.time("end_time")
        job = jobs.get(row.text("job_name"))
        if job is not None:
            job.ran(start, end)
    for name, job in jobs.items():
        yield _trace_job(name, job)


def _rows(tables: dict[str, list[Path]], table: str) -> Iterator[TraceRow]:
    for path in tables[table]:
        yield from rows_of(path, TABLES[table], _NEEDED[table])


def _add_task(job: _Job | None, row: TraceRow) -> None:
    count = int(row.number("inst_num", missing=1.0))
    cores = row.number("plan_cpu", missing=0.0) / _PERCENT
    gpus = row.number("plan_gpu", missing=0.0) / _PERCENT
    memory = row.number("plan_mem", missing=0.0) * _GIB
    start, end = row.time("start_time"), row.time("end_time")
    if job is not None:
        if count > 0 and (cores > 0 or gpus > 0):
            job.parts.append(Part(count, cores, gpus, memory, row.text("task_name")))
        job.ran(start, end)


def _trace_job(name: str, job: _Job) -> TraceJob | LeftOut:
    if job.submit is None:
        return LeftOut.NO_SUBMISSION
    if not job.parts:
        return LeftOut.NO_SIZE
    if job.start is None:
        return LeftOut.NEVER_STARTED
    if job.end is None or job.end < job.start:
        return LeftOut.NO_END
    return TraceJob(
        job=name,
        submit=job.submit,
        runtime=job.end - job.start,
        parts=tuple(job.parts),
        waited=max(0.0, job.start - job.submit),
        user=job.row.text("user"),
    )
