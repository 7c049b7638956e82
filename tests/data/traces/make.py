"""Write the samples of this folder: invented jobs, in the published formats of traces.

    python tests/data/traces/make.py

No content is from a real trace: names, times and sizes are drawn by a seed.
"""

import csv
import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
JOBS = 36
START = 1_600_000_000


def main() -> None:
    """Write all samples."""
    dice = random.Random("samples")
    write_swf(dice)
    write_philly(dice)
    write_helios(dice)
    write_pai(dice)
    write_google(dice)


def table(name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, with a row of names if given."""
    with (HERE / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([header] if header else [])
        writer.writerows(rows)


def date(seconds: float) -> str:
    """A date in the form of logs."""
    return f"{datetime.fromtimestamp(START + seconds, UTC):%Y-%m-%d %H:%M:%S}"


def write_swf(dice: random.Random) -> None:
    """Write a log of a batch system with a cancelled job, and one with an unknown end."""
    lines = [
        "; Version: 2.2",
        "; Computer: a made cluster",
        "; MaxNodes: 8",
        "; MaxProcs: 64",
        f"; UnixStartTime: {START}",
    ]
    submit = 0
    for number in range(1, JOBS + 1):
        submit += dice.randrange(5, 90)
        size, runtime, status = 2 ** dice.randrange(7), dice.randrange(10, 900), 1
        if number == 10:
            runtime, status = 0, 5
        if number == 20:
            runtime = -1
        asked = runtime * 2 + 60 if number % 3 else -1
        user, queue = dice.randrange(1, 5), dice.randrange(2)
        fields = [number, submit, dice.randrange(60), runtime, size, -1, -1, size, asked, -1, status]
        lines.append(" ".join(map(str, [*fields, user, 1, -1, queue, 1, -1, -1])))
    (HERE / "cluster.swf").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_philly(dice: random.Random) -> None:
    """Write a log of jobs with one to three attempts; one job has none, one has no end."""
    jobs = []
    for number in range(JOBS):
        submit = number * 60 + dice.randrange(60)
        start, attempts = submit + dice.randrange(120), []
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            end = start + dice.randrange(20, 2000)
            gpus = dice.choice((1, 1, 1, 2, 4, 8))
            names = [f"gpu{each}" for each in range(gpus)]
            attempts.append(
                {
                    "start_time": date(start),
                    "end_time": date(end),
                    "detail": [{"ip": f"m{dice.randrange(9)}", "gpus": names}],
                }
            )
            start = end + 30
        if number == 5:
            attempts = []
        if number == 15:
            attempts[-1]["end_time"] = "None"
        jobs.append(
            {
                "status": dice.choice(("Pass", "Killed", "Failed")),
                "vc": dice.choice(("aa11", "bb22")),
                "jobid": f"application_{number:04}",
                "attempts": attempts,
                "submitted_time": date(submit),
                "user": f"user{dice.randrange(5)}",
            }
        )
    (HERE / "philly.json").write_text(json.dumps(jobs, indent=1) + "\n", encoding="utf-8")


def write_helios(dice: random.Random) -> None:
    """Write a table of jobs; one never started."""
    rows: list[list[object]] = []
    for number in range(JOBS):
        submit = number * 45 + dice.randrange(45)
        start, runtime = submit + dice.randrange(300), dice.randrange(0, 3000)
        nodes = dice.choice((1, 1, 1, 2))
        gpus = nodes * dice.choice((0, 1, 2, 8))
        times: list[object] = [date(start), date(start + runtime), runtime, start - submit]
        if number == 7:
            times = ["None", date(start), "", ""]
        state = dice.choice(("COMPLETED", "CANCELLED", "FAILED"))
        user, vc = f"u{dice.randrange(6)}", f"vc{dice.randrange(3)}"
        rows.append([number, user, vc, gpus, max(gpus, nodes) * 4, nodes, state, date(submit), *times])
    names = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    table("helios.csv", names.split(","), rows)


def write_pai(dice: random.Random) -> None:
    """Write tables of jobs, tasks and instances, without rows of names, as they are published."""
    jobs: list[list[object]] = []
    tasks: list[list[object]] = []
    instances: list[list[object]] = []
    for number in range(JOBS):
        name = f"job{number:03}"
        submit = float(number * 50 + dice.randrange(50))
        start = submit + dice.randrange(40)
        end = start + dice.randrange(30, 2500)
        waits = number == 9
        user = f"user{dice.randrange(4)}"
        state = "Waiting" if waits else "Terminated"
        jobs.append([name, f"id{number}", user, state, submit, "" if waits else end])
        for task, least in (("ps", 1), ("worker", 2)) if number % 4 == 0 else (("tensorflow", 1),):
            count = float(least + dice.randrange(2))
            gpu = 0.0 if task == "ps" else dice.choice((25.0, 50.0, 100.0))
            times: list[object] = ["", ""] if waits else [start, end]
            tasks.append([name, task, count, state, *times, dice.choice((400.0, 600.0)), 29.25, gpu, "T4"])
            for each in range(int(count)):
                worker = f"{name}-{task}-{each}"
                times = ["", ""] if waits else [start + each, end]
                instances.append([name, task, worker, worker, f"id{number}", state, *times, "m1"])
    table("pai/pai_job_table.csv", (), jobs)
    table("pai/pai_task_table.csv", (), tasks)
    table("pai/pai_instance_table.csv", (), instances)


def write_google(dice: random.Random) -> None:
    """Write events of collections and instances; one is a reservation, and one is never scheduled."""
    of_collections: list[list[object]] = []
    of_instances: list[list[object]] = []
    for number in range(JOBS):
        name, kind, priority = 1000 + number, int(number == 3), dice.choice((25, 103, 200, 360))
        submit = 600 + number * 40 + dice.randrange(40)
        start = submit + dice.randrange(5)
        end = start + dice.randrange(20, 3000)
        size = [round(dice.uniform(0.01, 0.4), 4), round(dice.uniform(0.01, 0.3), 4)]
        level = dice.randrange(4)
        events = [(submit, "SUBMIT"), (start, "SCHEDULE"), (end, dice.choice(("FINISH", "KILL")))]
        for second, event in events[:1] if number == 8 else events:
            micro = second * 1_000_000
            user = f"user{number % 5}"
            of_collections.append([micro, event, name, level, kind, priority, 0, user, f"hash{number % 7}"])
            for index in range(1 + number % 4):
                of_instances.append([micro, event, name, level, kind, priority, index, 7, *size])
    names = "time,type,collection_id,scheduling_class,collection_type,priority"
    last = "instance_index,machine_id,resource_request.cpus,resource_request.memory"
    header = f"{names},alloc_collection_id,user,collection_logical_name"
    table("google/collection_events.csv", header.split(","), of_collections)
    table("google/instance_events.csv", f"{names},{last}".split(","), of_instances)


if __name__ == "__main__":
    main()
