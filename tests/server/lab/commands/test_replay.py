"""`licorne replay`: a journal is decided again, unchanged and with changes."""

import json
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_cli.failures import NEEDS_LOOK, NOT_FOUND, OK, REFUSED, USAGE
from licorne_core.messages.commands import Options
from licorne_core.values.rm_caps import RmCaps
from licorne_core.values.slices import Tuning
from licorne_server.engine.journal.records import Digest
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.server.recorded_run import RecordedRun

START = 1_790_000_000.0
QUEUES = config("[{name: a, resources: {max: {memory: 2}}}, {name: b}]")
WIDER = config("[{name: a, resources: {max: {memory: 4}}}, {name: b}]")
OPTIONS = Options(tuning=Tuning(slice_size=3), rm_caps=RmCaps(queues=4))


def recorded() -> RecordedRun:
    """Two RMs; queue a of the first has a maximum of 2 of 4, and four asks of 10 s each wait in it."""
    run = RecordedRun(OPTIONS, START)
    keys = [f"k{i}" for i in range(4)]
    run.run_for(10.0, *keys)
    for rm in ("rm1", "rm2"):
        run.at(START, register(QUEUES, rm), nodes(node("n1", memory=4), rm=rm))
        run.at(START, apps(app("x", "root.a"), app("gone", "root.b"), rm=rm))
    run.at(START + 5, *(asks(ask("x", key, memory=1)) for key in keys))
    run.at(START + 6, asks(*(ask("gone", f"g{i}", memory=9) for i in range(20))))
    run.at(START + 7, releases(release("gone")))
    run.at(START + 100, nodes(node("n2", memory=1)))
    return run


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorded().save(Path("journal"))
    Path("wider.yaml").write_text(WIDER)
    Path("same.yaml").write_text(QUEUES)


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """The JSON of a successful replay."""
    assert main(["replay", "journal", "-o", "json", *words]) == OK
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_replay_makes_the_same_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    """Without changes all digests are those of the journal, and the measures are printed."""
    assert main(["replay", "journal"]) == OK
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("run 1: 2026-09-21T14:13:20.000Z to 2026-09-21T14:15:00.000Z (100s), ")
    assert lines[1].startswith("decisions: equal to those of the journal, in ")
    [row] = [line.split() for line in lines if "root.a" in line]
    assert row == ["[rm1]default", "root.a", "4", "4", "0", "0", "5s", "0s", "10s", "-", "0", "-"]
    assert ["[rm1]default", "memory", "10.0", "%"] in [line.split() for line in lines]
    assert err == ""


def test_a_different_decision_has_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A journal with decisions other than those of this core ends with an exit code of its own."""
    run = recorded()
    run.records = [
        Digest(record.count, b"0" * 16) if isinstance(record, Digest) and record.count > 12 else record
        for record in run.records
    ]
    run.save(Path("journal"), 2)
    assert main(["replay", "journal"]) == NEEDS_LOOK
    assert (
        "decisions DIFFER from those of the journal, first among the 13 first inputs"
        in capsys.readouterr().out
    )


def test_the_same_configuration_has_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """A change that changes nothing shows no difference, and equal measures."""
    found = replayed(capsys, "--config", "same.yaml")
    assert found["firstDifference"] is None
    assert found["live"] == found["changed"]


def test_another_configuration_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The first difference is described in a sentence, and the measures of both runs are compared."""
    assert main(["replay", "journal", "--config", "wider.yaml", "--picture", "both.svg"]) == OK
    out = capsys.readouterr().out
    assert (
        "first decision that differs: at 2026-09-21T14:13:25.000Z (+5s), ask k2 of application x in"
        " [rm1]default: live it goes to node n1, 10 s later; with changes it goes to node n1" in out
    )
    assert "4 releases at others; 0 could not be carried over" in out
    [row] = [line for line in out.splitlines() if "root.a" in line]
    assert " 5s → 0s " in row
    assert Path("both.svg").read_text().count("<polyline") > 4


def test_nodes_of_one_rm_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The nodes are added to the named RM, and change the utilisation of this RM only."""
    found = replayed(capsys, "--nodes", "+4xmemory=1", "--rm", "rm1")
    for side, nodes_of_rm1 in (("live", 0.099), ("changed", 0.049)):
        partitions = {one["rmId"]: one for one in found[side]["partitions"]}  # type: ignore[index]
        assert partitions["rm1"]["utilisation"]["memory"] == pytest.approx(nodes_of_rm1, abs=0.002)
        assert partitions["rm2"]["utilisation"]["memory"] == 0.0


def test_a_replay_may_end_early(capsys: pytest.CaptureFixture[str]) -> None:
    """`--until` ends the replay, by an offset, unix seconds, or a time with its zone."""
    for text in ("+50", "+50s", str(START + 50), "2026-09-21T14:14:10Z", "2026-09-21T16:14:10+02:00"):
        found = replayed(capsys, "--until", text)
        assert (found["complete"], found["end"]) == (False, START + 50)


def test_a_torn_journal_is_replayed_to_its_last_record(capsys: pytest.CaptureFixture[str]) -> None:
    """A journal that is cut off replays to its last whole record, with a message."""
    file = Path("journal/000001-0001.ljr")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert main(["replay", "journal", "-o", "json"]) == OK
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["torn"]["file"] == file.name
    assert 0 < found["inputs"] < len(recorded().records)
    assert err.startswith("licorne: the journal is whole up to byte ")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nowhere"], USAGE, "nowhere: No such file or directory"),
        (["."], USAGE, ".: there is no journal in it"),
        (["journal", "--run", "7"], NOT_FOUND, "journal: there is no run 7; there is 1"),
        (["journal", "--until", "noon"], USAGE, "--until noon is no time: an RFC 3339 time"),
        (["journal", "--until", "2026-09-21T14:14:10"], USAGE, "--until 2026-09-21T14:14:10 is no time"),
        (["journal", "--until", "12"], USAGE, "--until 12 is before the run, which began at 2026-"),
        (["journal", "--config", "nowhere.yaml"], USAGE, "nowhere.yaml: No such file or directory"),
        (["journal", "--config", "bad.yaml"], REFUSED, "bad.yaml:1:13: "),
        (["journal", "--config", "many.yaml"], REFUSED, "licorne: the configuration is refused: RM rm1: "),
        (["journal", "--nodes", "20xmemory=1"], USAGE, "--nodes: 20xmemory=1 is not like"),
        (["journal", "--nodes", "+1xmemory=1"], USAGE, "--nodes: say whose: --rm, one of rm1, rm2"),
        (["journal", "--nodes", "+1xmemory=1", "--rm", "b"], NOT_FOUND, "RM b is not in the run"),
        (["journal", "--rm", "rm1"], USAGE, "--rm goes with --config or --nodes"),
        (["journal", "--picture", "a.png"], USAGE, "--picture a.png: it is SVG"),
        (["journal", "--picture", "no/a.svg"], USAGE, "--picture no/a.svg: No such file or directory"),
    ],
)
def test_unusable_arguments_are_one_line(
    words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A problem of the arguments is printed in a line, with its exit code."""
    Path("bad.yaml").write_text("partitions: 7")
    Path("many.yaml").write_text(config("[{name: a}, {name: b}, {name: c}, {name: d}]"))
    assert main(["replay", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert text in err
    assert "Traceback" not in err


def test_a_journal_of_another_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no journal, or of another format, is refused by name."""
    Path("journal/000001-0001.ljr").write_bytes(b"LICORNEJ of the future")
    assert main(["replay", "journal"]) == USAGE
    assert "licorne: journal: run 1: 000001-0001.ljr cannot be read: " in capsys.readouterr().err
