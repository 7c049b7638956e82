"""Readers of traces: the samples, and peculiarities of published files."""

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from licorne_server.lab.simulation.traces import files
from licorne_server.lab.simulation.traces.files import MAX_LINE, objects_of
from licorne_server.lab.simulation.traces.model import LeftOut, Part, Trace, TraceError, TraceJob
from licorne_server.lab.simulation.traces.opening import FORMATS, open_trace

SAMPLES = Path(__file__).parents[4] / "data" / "traces"
GIB = 1024**3

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of the test."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return written


def read(*paths: Path, kind: str = "") -> tuple[Trace, list[TraceJob]]:
    """The trace and all its jobs."""
    trace = open_trace(paths, kind)
    return trace, list(trace.jobs)


def refusal(*paths: Path, kind: str = "") -> str:
    """The error of a trace that cannot be read."""
    with pytest.raises(TraceError) as caught:
        read(*paths, kind=kind)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "jobs", "skipped"),
    [
        ("cluster.swf", "swf", 34, {LeftOut.NEVER_STARTED: 1, LeftOut.NO_RUNTIME: 1}),
        ("philly.json", "philly", 34, {LeftOut.NEVER_STARTED: 1, LeftOut.NO_END: 1}),
        ("helios.csv", "helios", 35, {LeftOut.NEVER_STARTED: 1}),
        ("pai", "pai", 35, {LeftOut.NEVER_STARTED: 1}),
        ("google", "google", 34, {LeftOut.NOT_A_JOB: 1, LeftOut.NEVER_STARTED: 1}),
    ],
)
def test_the_format_of_each_sample_is_detected(
    name: str, kind: str, jobs: int, skipped: dict[LeftOut, int]
) -> None:
    """Each format is detected, and jobs that cannot be played are counted by reason."""
    trace, found = read(SAMPLES / name)
    assert (trace.kind, len(found), dict(trace.skipped)) == (kind, jobs, skipped)
    assert all(job.runtime >= 0 and job.parts and job.waited >= 0 for job in found)


# SWF.

SWF = "1 0 5 100 4 -1 -1 {size} {asked} 1024 {status} 7 3 11 2 1 -1 -1"


def swf(size: int = 4, asked: int = 600, status: int = 1) -> str:
    """A line of SWF."""
    return SWF.format(size=size, asked=asked, status=status)


def test_swf_fields_are_parsed(write: Write) -> None:
    """A line has times, processors, total memory, names as numbers, and the recorded wait."""
    trace, [job] = read(write("a.swf", f"; MaxNodes: 4\r\n;MaxProcs:  32 (hyperthreads)\r\n\r\n{swf()}\r\n"))
    assert job == TraceJob(
        job="1",
        submit=0.0,
        runtime=100.0,
        parts=(Part(1, 4.0, memory=4 * 1024 * 1024.0),),
        requested=600.0,
        waited=5.0,
        user="7",
        group="3",
        queue="2",
        partition="1",
        name="11",
    )
    assert (trace.nodes, trace.processors) == (4, 32)


def test_swf_unknown_values_are_skipped(write: Write) -> None:
    """Without requested processors allocated ones count; -1 is never a time, name or amount."""
    _, [job] = read(write("a.swf", "1 0 -1 0.4 4 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n"))
    assert job == TraceJob(job="1", submit=0.0, runtime=0.4, parts=(Part(1, 4.0),))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 0 9 0 4 -1 -1 4 60 -1 5 1 1 1 1 1 -1 -1", LeftOut.NEVER_STARTED),
        ("1 0 9 -1 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1", LeftOut.NO_RUNTIME),
        ("1 0 9 10 0 -1 -1 -1 60 -1 1 1 1 1 1 1 -1 -1", LeftOut.NO_SIZE),
        ("1 -1 9 10 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1", LeftOut.NO_SUBMISSION),
        ("1 0 9 10 4 -1 -1 4 60 -1 3 1 1 1 1 1 -1 -1", LeftOut.PART_OF_A_JOB),
    ],
)
def test_swf_jobs_without_a_run_are_left_out(line: str, reason: LeftOut, write: Write) -> None:
    """A job without a run, a size or a submission is left out, and so are parts of a job."""
    trace, jobs = read(write("a.swf", line))
    assert (jobs, dict(trace.skipped)) == ([], {reason: 1})


def test_swf_jobs_with_a_run_are_played(write: Write) -> None:
    """A run of no length counts, and so does a cancelled job that has run."""
    path = write("a.swf", f"{swf().replace(' 100 ', ' 0 ')}\n{swf(status=5)}\n{swf(status=0)}")
    assert [job.runtime for job in read(path)[1]] == [0.0, 100.0, 100.0]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("1 0 5 x 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1", "field 4 (run time): 'x' is no number"),
        ("1 nan 5 1 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1", "field 2 (submit time): 'nan' is no number"),
        ("1 0 5 1 4", "5 fields, expected 18"),
    ],
)
def test_swf_errors_have_their_place(line: str, error: str, write: Write) -> None:
    """An error names file, line and field."""
    path = write("a.swf", f"; a comment\n{swf()}\n{line}\n")
    assert refusal(path) == f"{path}:3: {error}"


# Tables and JSON.

HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_helios_divides_a_job_over_its_nodes(write: Write) -> None:
    """GPUs and processors are those of the whole job, and there is a member for each node."""
    row = "9,ua,vcb,16,32,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:05,2020-06-10 04:55:09,600,4"
    _, [job] = read(write("a.csv", HELIOS.replace("\n", "\r\n") + row))
    assert job.parts == (Part(2, 16.0, 8.0),)
    assert (job.runtime, job.waited, job.user, job.queue) == (600.0, 4.0, "ua", "vcb")


def test_a_missing_duration_follows_from_start_and_end(write: Write) -> None:
    """Without a duration start and end count, and without an end the job is left out."""
    begin = "ua,vcb,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:05"
    rows = f"1,{begin},2020-06-09 18:42:05,,\n2,{begin},None,,\n"
    trace, [job] = read(write("a.csv", HELIOS + rows))
    assert job.runtime == 60.0
    assert dict(trace.skipped) == {LeftOut.NO_END: 1}


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("9,ua,vcb,many,1,1,COMPLETED,2020-06-09,2020-06-09,2020-06-10,6,4", "gpu_num: 'many' is no number"),
        (
            "9,ua,vcb,1,1,1,COMPLETED,yesterday,2020-06-09,2020-06-10,6,4",
            "submit_time: 'yesterday' is no time",
        ),
        ("9,ua,vcb,1,1,1,COMPLETED,1,1,1,1,1,1,1", "14 cells, but there are 12 columns"),
        ('9,"ua', "invalid CSV: unexpected end of data"),
    ],
)
def test_errors_of_tables_have_their_place(row: str, error: str, write: Write) -> None:
    """An error of a table names file, line and column."""
    path = write("a.csv", f"{HELIOS}{row}\n")
    assert refusal(path) == f"{path}:2: {error}"


def test_philly_may_be_a_table(write: Write) -> None:
    """A table with the keys of the JSON as columns is read as well."""
    rows = "jobid,vc,user,status,submitted_time,start_time,end_time,gpus\nj1,v,u,Pass,10,20,50,8\n"
    trace, [job] = read(write("jobs.csv", rows))
    assert (job.parts, job.runtime, trace.kind) == ((Part(1, 0.0, 8.0),), 30.0, "philly")


def attempt(start: object, end: object, gpus: int) -> dict[str, object]:
    """An attempt of a Philly job."""
    return {"start_time": start, "end_time": end, "detail": [{"ip": "m1", "gpus": ["g"] * gpus}]}


def philly(**fields: object) -> dict[str, object]:
    """A Philly job."""
    usual = {"jobid": "j", "vc": "v", "user": "u", "status": "Pass", "submitted_time": "2017-10-07 01:00:00"}
    return {**usual, **fields}


def test_philly_sums_attempts(write: Write) -> None:
    """The run time is that of all attempts, the size that of the largest."""
    attempts = [
        attempt("2017-10-07 01:00:10", "2017-10-07 01:01:10", 2),
        attempt(None, "2017-10-07 01:01:20", 0),
        attempt("2017-10-07 02:00:00", "2017-10-07 02:00:30", 8),
    ]
    _, [job] = read(write("a.json", json.dumps([philly(attempts=attempts)])))
    assert (job.runtime, job.waited, job.parts) == (90.0, 10.0, (Part(1, 0.0, 8),))


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (philly(attempts=5), "attempts: expected a list"),
        (philly(attempts=["x"]), "attempts[0]: expected an object"),
        (philly(attempts=[attempt("soon", None, 1)]), "attempts[0].start_time: 'soon' is no time"),
        (philly(attempts=[{"detail": [{"gpus": 3}]}]), "attempts[0].detail.gpus: expected a list"),
        (7, "expected an object for each job"),
    ],
)
def test_errors_of_objects_have_their_place(job: object, error: str, write: Write) -> None:
    """An error of an object names file, line, and the path in the object."""
    path = write("a.json", f"[\n{json.dumps(philly(attempts=[]))},\n{json.dumps(job)}]")
    assert refusal(path) == f"{path}:3: {error}"


@pytest.mark.parametrize("form", ["[{},{}]", "[\r\n {} ,\r\n\r\n{}\r\n]\r\n", "{}\n{}\n"])
def test_objects_are_read_one_by_one(form: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list and consecutive objects are read in small pieces, wherever these are cut."""
    name = f"é{'x' * 40}"
    jobs: list[dict[str, object]] = [{"name": name, "more": [1, {"a": "]"}]}, {"name": "b"}]
    text = form.replace("{}", "%s") % tuple(json.dumps(job, ensure_ascii=False) for job in jobs)
    path = write("a.json", text)
    for chunk in range(1, 24):
        monkeypatch.setattr(files, "CHUNK", chunk)
        rows = list(objects_of(path))
        assert [row.text("name") for row in rows] == [name, "b"]


def test_the_size_of_an_object_is_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object without an end is refused before all of the file is in memory."""
    monkeypatch.setattr(files, "MAX_OBJECT", 1_000)
    monkeypatch.setattr(files, "CHUNK", 100)
    path = write("a.json", '[\n{"a": "' + "x" * 100_000)
    assert refusal(path) == f"{path}:2: an object longer than 1000 characters, or invalid"
    path = write("b.json", '[{"a": 1},\n{"a": ]')
    assert refusal(path) == f"{path}:2: invalid JSON, or invalid"


# PAI.


def test_pai_joins_its_tables(write: Write) -> None:
    """Tasks are parts of their job in percent of cores and GPUs; instances have the real run times."""
    job = write("pai_job_table.csv", "j1,i1,ann,Terminated,100.0,900.0\nj2,i2,bob,Failed,5.0,9.0\n")
    names = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
    tasks = (
        f"{names}\nj1,ps,1.0,Terminated,130.0,900.0,600.0,2.0,,\nj1,worker,2,Terminated,130,900,400,1,50,T4\n"
    )
    task = write("tasks.csv", f"{tasks}other,worker,2,Terminated,130,900,400,1,50,T4\n")
    trace, [found] = read(job, task)
    assert found.parts == (Part(1, 6.0, 0.0, 2 * GIB, "ps"), Part(2, 4.0, 0.5, 1 * GIB, "worker"))
    assert (found.submit, found.runtime, found.waited, found.user) == (100.0, 770.0, 30.0, "ann")
    assert dict(trace.skipped) == {LeftOut.NO_SIZE: 1}
    late = write("pai_instance_table.csv", "j1,ps,n,w,i1,Terminated,125.0,905.0,m\n")
    _, [again] = read(job, task, late)
    assert (again.runtime, again.waited) == (780.0, 25.0)


def test_pai_needs_jobs_and_tasks(write: Write) -> None:
    """A single table of PAI is refused, as both jobs and tasks are needed."""
    path = write("pai_job_table.csv", "j1,i1,ann,Terminated,100.0,900.0\n")
    assert refusal(path) == f"{path}: a trace of the kind 'pai' needs its task table too"


# Google.

COLLECTIONS = "time,type,collection_id,scheduling_class,collection_type,priority,user\n"
INSTANCES = "time,type,collection_id,priority,instance_index,resource_request.cpus,resource_request.memory\n"


def test_google_joins_events(write: Write) -> None:
    """Types are names or numbers; evictions are no ends; each instance counts once."""
    events = "1000000,0,5,2,0,200,ann\n2000000,SCHEDULE,5,2,0,200,ann\n3000000,4,5,2,0,200,ann\n"
    one = write("c.csv", f"{COLLECTIONS}{events}9000000,FINISH,5,2,JOB,200,ann\n")
    rows = "1000000,0,5,200,0,0.5,0.25\n3500000,0,5,200,0,0.5,0.25\n1000000,0,5,200,1,0.5,0.25\n"
    two = write("i.csv", f"{INSTANCES}{rows}1000000,0,5,200,2,0.1,0\n")
    trace, [job] = read(one, two)
    assert job.parts == (Part(2, 0.5, 0.0, 0.25), Part(1, 0.1, 0.0, 0.0))
    assert (job.submit, job.runtime, job.waited, job.priority, job.queue) == (1.0, 7.0, 1.0, 200, "2")
    assert (trace.relative, trace.gangs) == (True, False)


def test_google_jobs_outside_of_the_trace_are_left_out(write: Write) -> None:
    """Jobs submitted before the trace, or ending after it, are left out."""
    after = 2**63 - 1
    events = "".join(
        f"{submit},0,{number},2,0,200,ann\n2000000,3,{number},2,0,200,ann\n{end},6,{number},2,0,200,ann\n"
        for number, (submit, end) in enumerate([(0, 9000000), (1000000, after), (1000000, 9000000)])
    )
    rows = "".join(f"1000000,0,{number},200,0,0.5,0.25\n" for number in range(3))
    trace, jobs = read(write("c.csv", COLLECTIONS + events), write("i.csv", INSTANCES + rows))
    assert [job.job for job in jobs] == ["2"]
    assert dict(trace.skipped) == {LeftOut.NO_SUBMISSION: 1, LeftOut.NO_END: 1}


def test_google_errors_have_their_line(write: Write) -> None:
    """An unknown type of events is an error with its line."""
    path = write("c.csv", f"{COLLECTIONS}1,77,5,2,0,200,ann\n")
    assert refusal(path) == f"{path}:2: type: '77' is no type of events"


# All formats.


def test_compressed_files_are_read(tmp_path: Path) -> None:
    """Files compressed by gzip are read, and a damaged one is an error."""
    data = gzip.compress((SAMPLES / "cluster.swf").read_bytes())
    path = tmp_path / "a.swf.gz"
    path.write_bytes(data)
    assert len(read(path)[1]) == 34
    path.write_bytes(data[:-20])
    assert refusal(path).startswith(f"{path}: damaged gzip: ")


def test_a_very_long_line_is_refused(write: Write) -> None:
    """A line without an end is refused before all of it is in memory."""
    path = write("a.swf", f"{swf()}\n; {'x' * MAX_LINE}")
    assert refusal(path) == f"{path}:2: a line longer than {MAX_LINE} bytes"


def test_rows_are_read_one_by_one(write: Write) -> None:
    """A job is yielded before the rest of the file is read."""
    path = write("a.swf", f"{swf()}\nnothing that is a job\n")
    assert [job.job for job in islice(open_trace([path]).jobs, 1)] == ["1"]


def test_files_of_different_formats_are_refused(write: Write) -> None:
    """Several files are one trace in one format; a folder stands for its files of a known format."""
    one, other = write("a.swf", swf()), SAMPLES / "helios.csv"
    assert refusal(one, other) == f"{other}: of the format helios, but {one} is swf"
    strange = write("readme.txt", "about this trace\n")
    assert refusal(strange) == f"{strange}:1: in none of the formats known: {', '.join(FORMATS)}"
    assert [job.job for job in read(one.parent)[1]] == ["1"]
    one.unlink()
    assert refusal(strange.parent) == f"{strange.parent}: no file of a known format in the folder"


def test_a_given_format_names_missing_columns(write: Write) -> None:
    """With a given format, a file without its columns is refused by name."""
    path = write("a.csv", "a,b\n1,2\n")
    assert refusal(path, kind="helios") == f"{path}:1: no column 'job_id'"
