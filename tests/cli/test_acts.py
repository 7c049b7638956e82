"""Commands that change a running server: their plans, messages and exit codes."""

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

AGE = r"\d+s"
"""The time since an act, which a busy machine may prolong."""

BLUE = ("--rm", "blue")


class Terminal(io.StringIO):
    """A terminal that types a given answer."""

    def isatty(self) -> bool:
        """True, for a terminal."""
        return True


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the server, which logs in the same process as the command."""
    with capture_logs():
        yield


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("", 1)])
async def test_consent_is_requested_on_a_terminal(
    town: Town, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    """On a terminal any answer but yes means no."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    result = await town.shell("apps", "kill", *BLUE, "idle")
    assert result.code == code
    assert "Do it? [y/N] " in result.err
    assert ("application idle killed" in result.err) == (code == 0)
    assert ("licorne: nothing was done\n" in result.err) == (code == 1)


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
"""Acts with an empty or wrong argument, or with one wrong name among several."""


@pytest.mark.parametrize("words", SLIPS, ids=" ".join)
async def test_invalid_arguments_change_nothing(town: Town, words: tuple[str, ...]) -> None:
    """Invalid arguments are refused as a whole, and none of the named objects changes."""
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
def test_every_verb_accepts_yes(words: tuple[str, ...]) -> None:
    """`-y` is accepted by every verb, also by those that request no consent, for scripts."""
    assert parser_for(words[0]).parse_line([*words, "-y"]).yes is True


async def test_levels_of_rms_are_listed(capsys: pytest.CaptureFixture[str], usual_levels: None) -> None:
    """Log levels that RMs have requested are listed below the configured ones, each with its RM."""
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


async def test_levels_are_printed_page_by_page(
    capsys: pytest.CaptureFixture[str], usual_levels: None
) -> None:
    """Very many requested levels come in several pages, all of which are printed."""
    async with serving() as server, connected(server) as channel:
        ids = [f"rm{number:03}" for number in range(MAX_WANTED + 1)]
        for rm_id in ids:
            await Shim(channel, rm_id).register(extraConfig={"log.level": "warn"})
        shown = (await Shell(server.grpc_address, capsys)("log-level", "-o", "json")).json
        assert [one["rmId"] for one in shown["wanted"]] == ids
        assert shown["levels"] == {"": "info"}


async def test_state_dump_is_printed_or_written(town: Town, tmp_path: Path) -> None:
    """A state dump is printed to stdout, or written to a file, completely or not at all."""
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
