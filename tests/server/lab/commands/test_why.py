"""`licorne why`: the explanation of an ask at a moment of a journal."""

import json
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_cli.failures import NOT_FOUND, OK, USAGE
from licorne_cli.output.text import to_plain
from licorne_core.values.ids import AppId, PartitionName
from licorne_server.reads import explaining
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.server.recorded_run import RecordedRun

START = 1_790_000_000.0
QUEUES = config("[{name: a, resources: {max: {memory: 2}}}, {name: b}]")
WAITS = START + 20
DEFAULT = PartitionName("[rm1]default")


def explained(run: RecordedRun, app_id: str, key: str) -> object:
    """The answer of the running core, as JSON."""
    views = run.player.scheduler.views
    report = next(step for step in views.explain(DEFAULT, AppId(app_id), key) if step is not None)
    return json.loads(json.dumps(to_plain(explaining.answer(views, DEFAULT, report, None))))


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A journal, and the explanation of its ask `big` at `WAITS` by the live core."""
    monkeypatch.chdir(tmp_path)
    run = RecordedRun(start=START)
    for rm in ("rm1", "rm2"):
        run.at(START, register(QUEUES, rm), nodes(node("n1", memory=4), rm=rm))
        run.at(START, apps(app("x", "root.a"), app("y", "root.b"), rm=rm))
        run.at(START + 1, asks(ask("y", "same", memory=1), rm=rm))
    run.at(START + 2, asks(ask("x", "small", memory=2)))
    run.at(START + 10, asks(ask("x", "big", memory=1), ask("x", "bigger", memory=1)))
    run.at(WAITS)
    live = explained(run, "x", "big")
    run.at(START + 30, releases(release("x", "small")))
    run.at(START + 40, releases(release("x", "big")), asks(ask("y", "late", memory=1)))
    run.save(Path("journal"))
    return live


def why(*words: str) -> int:
    """The exit code of the command."""
    return main(["why", "journal", *words])


def test_why_equals_the_explanation_of_the_live_core(
    live: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The explanation for a moment of the journal equals that of the live core."""
    assert why("big", "--at", "+20", "-o", "json") == OK
    assert json.loads(capsys.readouterr().out) == live


def test_why_prints_like_explain(live: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is that of `licorne explain`, before, while and after the ask waits."""
    assert why("big", "--at", "2026-09-21T14:13:40Z") == OK
    out = capsys.readouterr().out
    assert out.startswith("x/big in root.a: pending\n")
    assert "QUEUE_MAX" in out
    assert why("big", "--at", "+35", "--app", "x", "--partition", "default") == OK
    assert capsys.readouterr().out.startswith("x/big in root.a: allocated\n")
    assert why("late", "--at", "+1h") == OK
    assert "the run ends at 2026-09-21T14:14:00.000Z" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["bih", "--at", "+20"], NOT_FOUND, "no ask bih at 2026-09-21T14:13:40.000Z; there: big"),
        (["big", "--at", "+5"], NOT_FOUND, "there was no ask big at "),
        (["big", "--at", "+45"], NOT_FOUND, "there was no ask big at "),
        (["x", "--at", "+20"], NOT_FOUND, "an application of that name, with asks such as small, big"),
        (["big", "--at", "+20", "--app", "z"], NOT_FOUND, "in application z, which was not there"),
        (["same", "--at", "+20"], USAGE, "Name one: --partition, --app"),
        (["big", "--at", "+20", "--partition", "gpu"], NOT_FOUND, "no partition gpu then; there: [rm1]"),
        (["big", "--at", "soon"], USAGE, "--at soon is no time"),
    ],
)
def test_an_unknown_or_ambiguous_ask_is_refused(
    words: list[str], code: int, text: str, live: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ask that did not exist then, or is ambiguous, is an error with the existing ones."""
    assert why(*words) == code
    assert text in capsys.readouterr().err
