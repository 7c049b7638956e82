"""``licorne simulate``: its output, exit codes, and errors."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from licorne_cli.commands import main
from licorne_cli.failures import OK, REFUSED, USAGE

SAMPLES = Path(__file__).parents[1] / "data" / "traces"
SWF = str(SAMPLES / "cluster.swf")
QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: short}, {name: long}]
"""
MAP = "queues: [{queue: q0, to: root.short}, {to: root.long}]\n"


def simulate(*words: str) -> int:
    """The exit code of a command line."""
    return main(["simulate", *words])


def test_a_trace_under_two_policies_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Each policy has a row, and so have the recorded waits; the columns are explained below."""
    assert simulate(SWF, "--policy", "fifo", "--policy", "fair") == OK
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[:4] == [
        "34 jobs of cluster.swf, submitted in 28m 20s by 4 users",
        "on 8 nodes with vcore=8",
        "left out: 1 job (ended before its start)",
        "left out: 1 job (no run time)",
    ]
    assert lines[5].split() == ["RUN", "WAIT", "P50", "P99", "SLOWDOWN", "USED", "MAKESPAN", "CHANGE"]
    assert [line.split("  ")[0] for line in lines[6:9]] == ["as recorded", "fifo", "fair"]
    assert lines[7].endswith("-")
    assert lines[8].endswith("%")
    assert [line.partition(":")[0] for line in lines[10:15]] == ["WAIT", "SLOWDOWN", "USED", "CHANGE", "fifo"]
    assert printed.err.startswith("fifo: 34 jobs in ")


def test_bad_results_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines fit the width; gangs without progress, victims and missed guarantees follow the table."""
    monkeypatch.setenv("COLUMNS", "80")
    assert simulate("load:hpc", "--limit", "60", "--policy", "fifo", "--policy", "fair-preempting") == OK
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert "fair-preempting: gangs with room for only some members gave it up " in told
    assert "fair-preempting: queues with waiting asks had less than their guarantee" in told


def test_the_output_is_repeatable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same seed gives the same JSON and the same picture, another seed does not."""
    shown = []
    for number, seed in enumerate("112"):
        picture = tmp_path / f"{number}.svg"
        words = ("load:hpc", "--limit", "30", "--policy", "fifo", "--seed", seed, "--picture", str(picture))
        assert simulate(*words, "--json") == OK
        text = picture.read_text("utf-8")
        assert ElementTree.fromstring(text).tag.endswith("svg")
        shown.append((capsys.readouterr().out.replace(f'"seed": {seed}', ""), text))
    assert shown[0] == shown[1] != shown[2]


def test_json_has_raw_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has seconds and shares under the names of the figures."""
    assert simulate(SWF, "--json", "--policy", "fifo", "--limit", "10") == OK
    data = json.loads(capsys.readouterr().out)
    assert data["nodes"] == [{"count": 8, "capacity": {"vcore": 8000}}]
    assert data["leftOut"] == {"NEVER_STARTED": 1, "NO_RUNTIME": 1}
    [run] = data["runs"]
    assert (run["name"], run["jobs"], run["resource"]) == ("fifo", 10, "vcore")
    assert {"waitMean", "waitP50", "waitP99", "slowdownMean", "utilisation", "makespan"} <= run.keys()


def test_several_configurations_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each configuration is played as it is, or with each policy; the map gives the queue of each job."""
    one, two, rules = (tmp_path / name for name in ("one.yaml", "two.yaml", "map.yaml"))
    one.write_text(QUEUES)
    two.write_text(QUEUES.replace("{name: long}", "{name: long, resources: {max: {vcore: 16}}}"))
    rules.write_text(MAP)
    words = (SWF, "--map", str(rules), "--config", str(one), "--config", str(two), "--json")
    assert simulate(*words) == OK
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["name"] for run in runs] == [str(one), str(two)]
    assert [run["rejected"] > 0 for run in runs] == [False, True]
    assert {run["ended"] + run["rejected"] for run in runs} == {34}
    assert simulate(*words, "--policy", "priority") == OK
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["name"] for run in runs] == [f"{one} priority", f"{two} priority"]


def test_rejected_jobs_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs without a queue are reported with the reason, even if there are no others."""
    config, rules = tmp_path / "queues.yaml", tmp_path / "map.yaml"
    config.write_text(QUEUES)
    rules.write_text("queues: [{queue: q0, to: root.short}, {to: root.gone}]")
    assert simulate(SWF, "--map", str(rules), "--config", str(config)) == OK
    assert f"{config}: rejected 23 jobs: " in capsys.readouterr().out.replace("\n  ", " ")
    assert simulate(SWF, "--config", str(config)) == REFUSED
    assert "every job is rejected, the first ones as: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nowhere.swf"], "nowhere.swf: No such file or directory"),
        (["load:gpu"], "there is no load load:gpu, only load:hpc, load:learning, load:mixed"),
        (["load:hpc", SWF], "load:hpc is a trace by itself"),
        (
            [str(SAMPLES / "helios.csv")],
            "the trace does not name its nodes: give them, as --nodes 64xvcore=32",
        ),
        ([SWF, "--map", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        ([SWF, "--config", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        ([SWF, "--format", "helios"], "no column 'job_id'"),
        ([SWF, "--nodes", "many"], "'many' is not of the form 64xvcore=32,memory=128Gi"),
        ([SWF, "--policy", "best"], "invalid choice: 'best'"),
        ([SWF, "--load", "0"], "0 is not between 0 and 1e+06"),
        ([SWF, "--limit", "0"], "0 is not 1 or more"),
        ([SWF, "--picture", "/nowhere/a.svg", "--limit", "1"], "/nowhere/a.svg: No such file or directory"),
    ],
)
def test_bad_arguments_are_refused(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are an error with exit code 1, and stdout is empty."""
    try:
        code = simulate(*words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    assert (code, printed.out) == (USAGE, "")
    assert error in printed.err


def test_problems_in_files_have_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems of a map or of a configuration have their file, line and column."""
    path = tmp_path / "file.yaml"
    path.write_text("queues:\n  - {usr: ann, to: root.a}\n")
    assert simulate(SWF, "--map", str(path)) == USAGE
    assert f"{path}:2:6: queues[0].usr: unknown key 'usr', did you mean 'user'?" in capsys.readouterr().err
    path.write_text("partitions:\n  - {name: default, queues: [{name: root, quues: []}]}\n")
    assert simulate(SWF, "--config", str(path)) == REFUSED
    assert f"{path}:2:43: partitions[0].queues[0].quues: unknown key" in capsys.readouterr().err


def test_a_trace_without_playable_jobs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace without a job that can be played is refused with the reasons."""
    assert simulate(SWF, "--nodes", "1xmemory=1Gi") == REFUSED
    assert "34 jobs (asks for a resource that no node has)" in capsys.readouterr().err
    path = tmp_path / "empty.swf"
    path.write_text("; nobody came\n")
    assert simulate(str(path), "--nodes", "1xvcore=1") == REFUSED
    assert capsys.readouterr().err.endswith("no job can be played: the trace is empty\n")
