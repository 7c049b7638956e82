"""`licorne config plan` and `licorne apps plan` against a running server."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
import yaml
from structlog.testing import capture_logs

from licorne_cli.commands import main
from licorne_core.messages.commands import Hold, SetHold
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.engine.copies import Pauses
from support.peers.scenes import JOB, NARROW_AND_WIDE, WIDER
from support.peers.shim import Shim, application, ask, connected, new_allocations
from support.peers.town import Result

Licorne = Callable[..., Awaitable[Result]]

VCORES = ", expected a whole number, alone or with m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection on which `rm` runs two of three asks of 1 core in root.a, and has 2 cores more."""
    async with connected(server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up(config=NARROW_AND_WIDE, nodes=2, vcore=2_000)
        await shim.applications(calls[1], application("full", "root.a"))
        wanted = [ask(f"k{i}", "full", 1_000) for i in range(3)]
        for one in wanted:
            one.preemptionPolicy.allowPreemptSelf = True
        await shim.ask(calls[0], *wanted)
        await new_allocations(calls[0], 2)
        yield channel


@pytest.fixture
def licorne(server: Server, channel: grpc.aio.Channel, capsys: pytest.CaptureFixture[str]) -> Licorne:
    """Run a command against the server, outside its event loop."""

    async def run(*words: str) -> Result:
        capsys.readouterr()
        with capture_logs():
            code = await asyncio.to_thread(main, [*words, "--target", server.grpc_address])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def written(folder: Path, text: str) -> str:
    """The path of a file with the text."""
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.row(168)
async def test_explain_prints_changes_that_let_an_ask_start(
    licorne: Licorne, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`licorne explain` prints the changes confirmed on a copy, or the reason why there was no trial."""
    told = await licorne("explain", "full", "k2")
    confirmed = "confirmed on a copy: with the maximum of queue root.a at vcore=3 it starts at once on n"
    assert confirmed in told.out
    monkeypatch.setattr(server.copies, "_pauses", Pauses(1e-9, lambda: 1024**3))
    told = await licorne("explain", "full", "k2")
    advice = (
        "not confirmed, by its checks alone it lacks: the maximum of queue root.a at vcore=3 (now vcore=2)"
    )
    assert advice in told.out
    assert "it was not tried: no copy is made for a plan: everybody would wait" in told.out
    await server.copies.stop()
    told = await licorne("explain", "full", "k2")
    assert told.code == 0
    assert "what would let it start was not tried: " in told.out
    told = await licorne("explain", "full", "k2", "-o", "json")
    assert told.json["planStart"]["notTried"]
    assert (await licorne("explain", "full", "k2", "-o", "json", "--no-trials")).json["planStart"] is None


async def test_a_plan_of_an_rm_on_hold_is_partial(licorne: Licorne, server: Server, tmp_path: Path) -> None:
    """The plan of an RM on hold is incomplete, so the exit code is 7."""
    hold = SetHold(rm_id=RmId("rm"), hold=Hold.OUTBOX_FULL, on=True)
    await server.engine.submit(hold)
    result = await licorne("config", "plan", written(tmp_path, WIDER))
    assert result.out.splitlines()[2] == (
        "NOT COMPLETE: the RM is on hold (outbox full), and nothing is scheduled for it meanwhile"
    )
    assert result.code == 7
    result = await licorne("apps", "plan", written(tmp_path, JOB))
    assert "NOT COMPLETE: the RM is on hold (outbox full)" in result.out
    assert result.code == 6, "its asks wait"


@pytest.mark.parametrize(("text", "command"), [(WIDER, ("config", "plan")), (JOB, ("apps", "plan"))])
async def test_a_plan_in_yaml_equals_the_json(
    licorne: Licorne, tmp_path: Path, text: str, command: tuple[str, ...]
) -> None:
    """A plan has the same content in YAML and JSON."""
    given = (*command, written(tmp_path, text), "-o")
    as_yaml = await licorne(*given, "yaml")
    assert yaml.safe_load(as_yaml.out) == (await licorne(*given, "json")).json


async def test_a_submission_is_read_from_stdin(licorne: Licorne, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission on stdin may be JSON, and a rejection is printed with its reason."""
    text = b'{"application": "a", "user": "ann", "queue": "root.x", "asks": []}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    result = await licorne("apps", "plan", "-")
    assert result.out.startswith("application a would be rejected: failed to place application a")
    assert result.code == 6


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("# nothing\n", ["1:1: text: the text describes no application"]),
        ("user: ann\n", ["1:1: application: 'application' is missing"]),
        ("[1]", ["1:1: text: expected a mapping, found a list"]),
        (
            "{application: a, user: u, color: red, gangstyle: soft}",
            [
                "1:27: color: unknown key 'color'",
                "1:50: gangstyle: unknown gang style 'soft', expected Soft or Hard",
            ],
        ),
        (
            (
                "application: a\nuser: u\nasks:\n"
                "- {count: 0, resources: {vcore: 1}}\n"
                "- {priority: high, resources: {vcore: 1x}}\n"
                "- {placeholder: true, resources: {vcore: 1}}\n"
                "- {count: 2}\n"
                "- {count: 999, resources: {vcore: 1}}\n"
            ),
            [
                "4:11: asks[0].count: expected at least 1",
                (
                    "5:14: asks[1].priority: expected a whole number from -2147483648 to "
                    "2147483647, found 'high'"
                ),
                f"5:39: asks[1].resources.vcore: invalid quantity '1x' for vcore{VCORES}",
                "6:17: asks[2].placeholder: a placeholder needs a taskgroup",
                "7:3: asks[3].resources: 'resources' are missing",
                "8:11: asks[4].count: more than 1000 asks in all",
            ],
        ),
        (
            (
                "{application: a, user: u, asks: [{name: x, resources: {vcore: 1}}, "
                "{name: x, resources: {vcore: 1}}]}"
            ),
            ["1:33: asks: two asks have the same name"],
        ),
    ],
    ids=["empty", "missing", "list", "keys", "asks", "names"],
)
async def test_problems_of_a_submission_have_their_place(
    text: str, problems: list[str], tmp_path: Path, licorne: Licorne
) -> None:
    """All problems of a file are printed at once, with line and column."""
    path = written(tmp_path, text)
    result = await licorne("apps", "plan", path)
    told = [line.removeprefix(f"{path}:").lstrip() for line in result.err.splitlines()]
    assert (told, result.code) == (problems, 4)
