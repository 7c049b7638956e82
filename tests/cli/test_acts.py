"""Commands that act on a running server: their plans, their messages, their exit codes."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_cli.commands import parser_for
from licorne_server.services.admin.operations import MAX_WANTED
from support.peers.shim import Shim, connected, serving
from support.peers.town import Shell, Town

UNASKED = "licorne: nothing was done: say --yes to do it"

AGE = r"\d+s"
"""How long ago something was done: a busy machine may be slow."""

BLUE = ("--rm", "blue")


class Terminal(io.StringIO):
    """A terminal on which an answer is typed."""

    def isatty(self) -> bool:
        """True, for a terminal."""
        return True


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The server logs in the same process: its lines are not the command's."""
    with capture_logs():
        yield


async def test_nodes_are_cordoned_and_uncordoned(town: Town) -> None:
    """Each node gets a line of output; the table shows the operator, the time and the reason."""
    result = await town.shell("nodes", "cordon", *BLUE, "node-1", "node-2", "--message", "disk")
    assert (result.code, result.out) == (0, "")
    assert sorted(result.err.splitlines()[-2:]) == [
        "node node-1 cordoned: 2 allocations there go on",
        "node node-2 cordoned: 2 allocations there go on",
    ]
    shown = await town.shell("nodes", *BLUE)
    assert [row[1] for row in shown.rows[1:]] == ["cordoned", "cordoned"]
    assert len(re.findall(rf"by 127\.0\.0\.1 {AGE} ago: disk", shown.out)) == 2
    again = await town.shell("nodes", "cordon", *BLUE, "node-1")
    assert again.err.endswith("node node-1 is cordoned already: 2 allocations there go on\n")
    # A name may be as `-o name` prints it, also behind an option.
    back = await town.shell("nodes", "uncordon", *BLUE, "--timeout", "20", "node/node-1")
    assert back.err.endswith("node node-1 uncordoned\n")
    assert (await town.shell("nodes", "uncordon", *BLUE, "node-1")).err.endswith("is not cordoned\n")
    data = await town.shell("nodes", "cordon", *BLUE, "node-1", "-o", "json")
    assert data.json == {"changed": True, "allocations": 2}
    unknown = await town.shell("nodes", "cordon", *BLUE, "node-9")
    assert (unknown.code, unknown.out) == (3, "")


async def test_nodes_are_drained(town: Town) -> None:
    """The plan is printed first; then the table shows the progress, until no allocation is left."""
    drain = ("nodes", "drain", *BLUE, "node-1", "--deadline", "1h", "--message", "disk")
    asked = await town.shell(*drain)
    assert (asked.code, asked.err.splitlines()[-1]) == (1, UNASKED)
    assert asked.err.startswith(
        "node node-1 is to be cordoned, and its RM is told to stop within 1h what runs there: "
    )
    result = await town.shell(*drain, "--yes")
    assert result.err.endswith("node node-1 cordoned: 2 allocations to stop\n")
    shown = await town.shell("nodes", *BLUE)
    assert [row[1] for row in shown.rows[1:] if row[0] == "node-1"] == ["draining"]
    assert " of 2 left, until " in shown.out
    assert [row[0] for row in (await town.shell("nodes", *BLUE, "--cordoned")).rows] == ["NODE", "node-1"]
    await town.shell("nodes", "uncordon", *BLUE, "node-1")
    empty = await town.shell("nodes", "drain", "--rm", "green", "meadow-1", "--yes", "--wait")
    assert empty.err.splitlines()[-2:] == [
        "node meadow-1 cordoned: 0 allocations, none stopped",
        "node meadow-1 is drained",
    ]


async def test_a_drain_stops_nothing_unless_it_is_said(town: Town) -> None:
    """Without a deadline it waits; --now stops all at once, and an empty or zero time is refused."""
    waiting = await town.shell("nodes", "drain", *BLUE, "node-1", "--yes")
    assert waiting.err.splitlines()[-2:] == [
        "node node-1 is to be cordoned, and what runs there goes on until it ends: 2 allocations",
        "node node-1 cordoned: 2 allocations, none stopped",
    ]
    assert "2 of 2 left, none stopped" in (await town.shell("nodes", *BLUE)).out
    now = await town.shell("nodes", "drain", *BLUE, "node-1", "--now")
    assert now.err.splitlines()[0] == (
        "node node-1 is to be cordoned, and its RM is told to stop at once what runs there: 2 allocations, "
        "but not those of asks that require the node; this replaces its drain"
    )
    for wrong in (("--now", "--deadline", "1h"), ("--deadline", "0"), ("--deadline", "")):
        with pytest.raises(SystemExit):
            await town.shell("nodes", "drain", *BLUE, "node-1", *wrong, "--yes")
    assert "2 of 2 left, none stopped" in (await town.shell("nodes", *BLUE)).out


async def test_the_partition_of_another_rm_is_named(town: Town) -> None:
    """A partition's full name includes its RM."""
    result = await town.shell("nodes", "cordon", "meadow-1", "--partition", "[green]default")
    assert (result.code, result.err) == (0, "node meadow-1 cordoned: 0 allocations there go on\n")
    bare = await town.shell("nodes", "uncordon", *BLUE, "node-1", "--partition", "default")
    assert (bare.code, bare.err) == (0, "node node-1 is not cordoned\n")
    assert (await town.shell("nodes", "uncordon", *BLUE, "n", "--partition", "other")).code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("apps", "kill", "shop", "--yes"),
        ("nodes", "drain", "node-1"),
        ("nodes", "uncordon", "node-1", "--partition", "default"),
        ("queues", "stop", "root.prod", "--yes"),
    ],
    ids=" ".join,
)
async def test_nobody_acts_on_one_of_several_rms_by_chance(town: Town, words: tuple[str, ...]) -> None:
    """With several RMs one must be named, as for configurations; nothing is done."""
    result = await town.shell(*words)
    assert (result.code, result.out, result.err) == (
        1,
        "",
        "licorne: there are several RMs, name one of them with --rm: blue, green\n",
    )
    both = await town.shell(*words[:3], "--rm", "blue", "--partition", "[green]default")
    assert (both.code, both.err) == (
        1,
        "licorne: --partition [green]default is not one of --rm blue\n",
    )
    nobody = await town.shell(*words[:3], "--rm", "red")
    assert (nobody.code, nobody.err) == (3, 'licorne: no RM "red"; there are: blue, green\n')
    assert (await town.shell("nodes", *BLUE)).rows[1][1] == "yes"


async def test_applications_are_held_and_resumed(town: Town) -> None:
    """Each application gets a line of output; the table and the application show operator and reason."""
    result = await town.shell("apps", "hold", *BLUE, "shop", "--message", "data is late")
    assert (result.code, result.out) == (0, "")
    assert result.err.endswith("application shop held: 2 asks wait, 4 allocations go on\n")
    again = await town.shell("apps", "hold", *BLUE, "shop", "--message", "data is late")
    assert "application shop is held already" in again.err
    header, *rows = (await town.shell("apps", *BLUE)).rows
    who, age = next(row[-2:] for row in rows if row[0] == "shop")
    assert (who, re.fullmatch(AGE, age) is not None) == ("127.0.0.1", True)
    assert header[-1] == "HELD"
    shown = (await town.shell("apps", *BLUE, "shop")).out
    assert re.search(rf"\nheld by 127\.0\.0\.1 {AGE} ago: data is late\n", shown)
    told = (await town.shell("explain", *BLUE, "shop")).out
    assert 'application shop is held by 127.0.0.1: "data is late"' in told
    assert "\nheld since " in told
    resumed = await town.shell("apps", "resume", *BLUE, "shop", "-o", "json")
    assert resumed.json == {"changed": True, "asks": 2, "allocations": 4}
    assert "is not held" in (await town.shell("apps", "resume", *BLUE, "shop")).err


async def test_an_application_gets_another_priority_and_queue(town: Town) -> None:
    """The new values are printed; a queue that cannot accept the application is refused without a change."""
    result = await town.shell("apps", "set", *BLUE, "idle", "--priority", "-9", "--queue", "root.prod")
    assert result.err.endswith("application idle is now in queue root.prod, priority: -9\n")
    shown = (await town.shell("apps", *BLUE, "idle")).out
    assert re.search(rf"priority or queue changed by 127\.0\.0\.1 {AGE} ago; priority: -9", shown)
    back = await town.shell("apps", "set", *BLUE, "idle", "--reset-priority")
    assert back.err.endswith("in queue root.prod, priority: its asks' own\n")
    refused = await town.shell("apps", "set", *BLUE, "shop", "--queue", "root.dev")
    assert (refused.code, "application shop has 4 allocations" in refused.err) == (4, True)
    assert (await town.shell("apps", "set", *BLUE, "shop")).code == 1
    with pytest.raises(SystemExit):
        await town.shell("apps", "set", *BLUE, "shop", "--priority", "high")


async def test_an_application_is_killed_if_that_was_agreed_to(town: Town) -> None:
    """Without --yes only the plan is printed, and the exit code is 1."""
    result = await town.shell("apps", "kill", *BLUE, "shop")
    plan = "application shop in queue root.prod is to be killed: 4 allocations, 2 asks"
    assert (result.code, result.err.splitlines()[-2:]) == (1, [plan, UNASKED])
    result = await town.shell("apps", "kill", *BLUE, "shop", "--yes", "--message", "over budget")
    assert result.code == 0
    assert result.err.splitlines()[-2:] == [
        plan,
        "application shop killed: 4 allocations are being stopped, 2 asks dropped",
    ]
    assert (await town.shell("apps", "kill", *BLUE, "nobody", "-y")).code == 3


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("", 1)])
async def test_on_a_terminal_it_is_asked(
    town: Town, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    """Anything but yes means no."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    result = await town.shell("apps", "kill", *BLUE, "idle")
    assert result.code == code
    assert "Do it? [y/N] " in result.err
    assert ("application idle killed" in result.err) == (code == 0)
    assert ("licorne: nothing was done\n" in result.err) == (code == 1)


async def test_a_queue_is_stopped_and_started(town: Town) -> None:
    """The plan names waiting and continuing work; a start needs no consent."""
    result = await town.shell("queues", "stop", *BLUE, "root")
    assert (result.code, result.err.splitlines()[-1]) == (1, UNASKED)
    result = await town.shell("queues", "stop", *BLUE, "root", "--yes")
    usage = "pending memory=2Gi,vcore=2 waits, allocated memory=4Gi,vcore=4 goes on"
    assert result.code == 0
    assert result.err.splitlines()[-2:] == [
        f"queue root with 2 queues below it is to be stopped: {usage}",
        "queue root stopped",
    ]
    assert (await town.shell("queues", "root.dev")).rows[1][1] == "Active"
    assert (await town.shell("queues", "root")).rows[1][1] == "Stopped"
    explained = await town.shell("explain", "shop")
    assert "queue root is stopped by 127.0.0.1" in explained.out
    again = await town.shell("queues", "stop", *BLUE, "root", "--yes")
    assert again.err.endswith("queue root is stopped already\n")
    started = await town.shell("queues", "start", *BLUE, "root")
    assert (started.code, started.err.splitlines()[-1]) == (0, "queue root started")
    assert (await town.shell("queues", "start", *BLUE, "root")).err.endswith("is active already\n")
    assert (await town.shell("queues", "stop", *BLUE, "root.none", "--yes")).code == 3
    idle = await town.shell("queues", "stop", *BLUE, "root.dev")
    assert idle.err.splitlines()[0] == "queue root.dev is to be stopped: nothing waits, nothing runs"


SLIPS = [
    *((noun, verb, "") for noun, verb in (("nodes", "cordon"), ("apps", "hold"), ("queues", "start"))),
    *((noun, verb, "", "-y") for noun, verb in (("nodes", "drain"), ("apps", "kill"), ("queues", "stop"))),
    *((noun, verb, "-y") for noun, verb in (("nodes", "drain"), ("apps", "kill"), ("queues", "stop"))),
    ("nodes", "cordon", "node-1", "nod"),
    ("apps", "hold", "shop", "shpo"),
    ("apps", "kill", "shop", "shpo", "-y"),
    ("queues", "stop", "root.prod", "root.prd", "-y"),
    *(("nodes", "drain", "node-1", "--deadline", wrong, "-y") for wrong in ("", "-5m", "5", "1e9d")),
    ("nodes", "drain", "node-1", "--deadline", "5m", "--now", "-y"),
    *(("apps", "set", "shop", "--priority", wrong) for wrong in ("", "1.5", "2147483648")),
    ("apps", "set", "shop", "--queue", ""),
    ("apps", "set", "shop", "--queue", "root.prd"),
    *(("config", "rollback", "--to", wrong, "-y") for wrong in ("", "0", "7")),
    ("config", "apply", "/dev/null", "-y"),
    ("rms", "forget", "", "-y"),
]
"""Acts with something empty or wrong in their line, or with one wrong name of several."""


@pytest.mark.parametrize("words", SLIPS, ids=" ".join)
async def test_a_slip_does_nothing(town: Town, words: tuple[str, ...]) -> None:
    """The line is refused as a whole, and none of the named objects has changed."""
    looks = (("nodes",), ("queues",), ("apps",), ("config", "history"))
    before = [(await town.shell(*look, *BLUE, "-o", "json")).out for look in looks]
    try:
        code = (await town.shell(*words, *BLUE)).code
    except SystemExit as wrong_usage:
        code = int(wrong_usage.code or 0)
    assert code in (1, 3, 4)
    assert [(await town.shell(*look, *BLUE, "-o", "json")).out for look in looks] == before


@pytest.mark.parametrize(
    "words",
    [
        ("nodes", "cordon", *BLUE, "node-1"),
        ("nodes", "uncordon", *BLUE, "node-1"),
        ("queues", "start", *BLUE, "root.dev"),
        ("apps", "hold", *BLUE, "shop"),
        ("apps", "resume", *BLUE, "shop"),
        ("apps", "set", *BLUE, "shop", "--priority", "3"),
    ],
    ids=str,
)
def test_every_verb_takes_yes(words: tuple[str, ...]) -> None:
    """`-y` is accepted where no consent is needed, so that scripts can use it with every verb."""
    assert parser_for(words[0]).parse_line([*words, "-y"]).yes is True


async def test_log_levels(town: Town, usual_levels: None) -> None:
    """A level is displayed, set for a logger or for all others, and reset."""
    usual = [["LOGGER", "LEVEL"], ["(all", "others)", "info"]]
    assert (await town.shell("log-level")).rows == usual
    result = await town.shell("log-level", "core.engine", "debug")
    assert (result.code, result.rows[-1][:4]) == (0, ["core.engine", "debug", "by", "127.0.0.1"])
    result = await town.shell("log-level", "warning", "-o", "json")
    assert result.json["levels"] == {"": "warning", "core.engine": "debug"}
    assert (sorted(result.json["marks"]), result.json["wanted"]) == (["", "core.engine"], [])
    result = await town.shell("log-level", "core.engine", "--reset")
    assert [row[:3] for row in result.rows[1:]] == [["(all", "others)", "warning"]]
    await town.shell("log-level", "core.app", "error")
    assert (await town.shell("log-level", "--reset")).rows == usual
    assert (await town.shell("log-level", "root", "info")).code == 4


async def test_levels_that_rms_want_are_shown(capsys: pytest.CaptureFixture[str], usual_levels: None) -> None:
    """Levels requested by RMs are listed below the configured ones, with the RM if there is any."""
    async with serving() as server, connected(server) as channel:
        shell = Shell(server.grpc_address, capsys)
        extra = {"log.core.scheduler.level": "DEBUG", "log.level": "warn"}
        await Shim(channel, "loud").register(extraConfig=extra)
        rows = (await shell("log-level", "core.engine", "error")).rows
        age = rows[2].pop(4)
        assert re.fullmatch(AGE, age)
        assert rows == [
            ["LOGGER", "LEVEL", "SET", "WANTED", "BY"],
            ["(all", "others)", "info", "-", "-"],
            ["core.engine", "error", "by", "127.0.0.1", "ago", "-"],
            ["(all", "others)", "warning", "-", "RM", "loud"],
            ["core.scheduler", "debug", "-", "RM", "loud"],
        ]
        [wanted] = (await shell("log-level", "-o", "json")).json["wanted"]
        assert wanted == {"rmId": "loud", "levels": {"": "warning", "core.scheduler": "debug"}}


async def test_levels_that_very_many_rms_want_are_all_shown(
    capsys: pytest.CaptureFixture[str], usual_levels: None
) -> None:
    """The server answers in pages, all of which are printed."""
    async with serving() as server, connected(server) as channel:
        ids = [f"rm{number:03}" for number in range(MAX_WANTED + 1)]
        for rm_id in ids:
            await Shim(channel, rm_id).register(extraConfig={"log.level": "warn"})
        shown = (await Shell(server.grpc_address, capsys)("log-level", "-o", "json")).json
        assert [one["rmId"] for one in shown["wanted"]] == ids
        assert shown["levels"] == {"": "info"}


async def test_the_state_is_dumped(town: Town, tmp_path: Path) -> None:
    """The dump is printed to stdout, or written to a file completely or not at all."""
    document = (await town.shell("state-dump")).json
    assert document["rmDiagnostics"].keys() == {"blue", "green"}
    path = tmp_path / "dump.json"
    path.write_text("before")
    refused = await town.shell("state-dump", "--rm", "nobody", "--file", str(path))
    assert (refused.code, path.read_text()) == (3, "before")
    result = await town.shell("state-dump", "--rm", "blue", "--file", str(path))
    assert (result.code, result.out) == (0, "")
    assert json.loads(path.read_text())["rmDiagnostics"].keys() == {"blue"}
    assert os.listdir(tmp_path) == ["dump.json"], "nothing is left beside it"
    with pytest.raises(SystemExit) as usage:
        await town.shell("state-dump", "-o", "json")
    assert usage.value.code == 1
    nowhere = await town.shell("state-dump", "--file", str(tmp_path / "none" / "dump.json"))
    assert nowhere.code == 1
    assert "No such file or directory" in nowhere.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("log-level", "loud"),
            "log-level [LOGGER] LEVEL, with one of debug, info, warning, error",
        ),
        (
            ("log-level", "core", "info", "--reset"),
            "log-level [LOGGER] LEVEL, with one of debug, info, warning, error",
        ),
    ],
)
async def test_arguments_that_do_not_fit(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    """Contradicting arguments are a usage error that names them."""
    command, *rest = arguments
    result = await Shell("127.0.0.1:1", capsys)(command, *rest)
    assert (result.code, result.err) == (1, f"licorne: {problem}\n")
