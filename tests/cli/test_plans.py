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
from support.peers.shim import Shim, application, ask, connected, new_allocations
from support.peers.town import Result

Licorne = Callable[..., Awaitable[Result]]

CONFIG = """\
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {vcore: 2}}
            properties: {preemption.delay: 1s}
          - name: b
            resources: {guaranteed: {vcore: 3}}
            properties: {preemption.delay: 1s}
"""
VCORES = ", expected a whole number, alone or with m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
WIDER = CONFIG.replace("max: {vcore: 2}", "max: {vcore: 3}")
NARROW = CONFIG.replace("max: {vcore: 2}", "max: {vcore: 1}").replace("- name: b", "- name: c")
JOB = """\
application: job
user: ann
groups: [dev]
queue: root.b
asks:
  - {name: driver, resources: {vcore: 1}, priority: 5}
  - {name: exec, count: 2, resources: {vcore: 500m}}
"""


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection on which `rm` runs two of three asks of 1 core in root.a, and has 2 more."""
    async with connected(server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up(config=CONFIG, nodes=2, vcore=2_000)
        await shim.applications(calls[1], application("full", "root.a"))
        wanted = [ask(f"k{i}", "full", 1_000) for i in range(3)]
        for one in wanted:
            one.preemptionPolicy.allowPreemptSelf = True
        await shim.ask(calls[0], *wanted)
        await new_allocations(calls[0], 2)
        yield channel


@pytest.fixture
def licorne(server: Server, channel: grpc.aio.Channel, capsys: pytest.CaptureFixture[str]) -> Licorne:
    """Runs a command against the server, beside its loop."""

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
async def test_a_waiting_ask_is_told_what_would_let_it_start(
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


async def test_a_plan_by_which_somebody_is_worse_off_exits_with_6(licorne: Licorne, tmp_path: Path) -> None:
    """Queues above their new maxima are printed with the amount."""
    result = await licorne("config", "plan", written(tmp_path, NARROW))
    assert "            over its maximum by vcore=1" in result.out.splitlines()
    assert "  removed   root.b" in result.out.splitlines()
    assert "  added     root.c" in result.out.splitlines()
    assert result.code == 6


async def test_an_inherited_property_is_told_where_it_stands(licorne: Licorne, tmp_path: Path) -> None:
    """Queues that have no other change are counted; others show theirs alone."""
    text = WIDER.replace('submitacl: "*"', 'submitacl: "*"\n        properties: {backfill: easy}')
    result = await licorne("config", "plan", written(tmp_path, text))
    of_queues = result.out.partition("queues (3)\n")[2].partition("\n\n")[0]
    assert of_queues.count("property backfill: nothing -> easy") == 1
    assert of_queues.splitlines()[-3:] == [
        "  changed   root.a, 1 application",
        "            max: vcore=2 -> vcore=3",
        "  changed   1 more queue, by the same properties, which they inherit",
    ]


async def test_what_is_so_already_makes_nobody_worse_off(
    licorne: Licorne, server: Server, tmp_path: Path
) -> None:
    """A queue that already exceeds its maximum is printed as such, and the exit code is 0."""
    await licorne("config", "apply", written(tmp_path, NARROW), "--yes")
    again = NARROW.replace("preemption.delay: 1s}\n          - name: c", "x: y}\n          - name: c")
    assert again != NARROW
    result = await licorne("config", "plan", written(tmp_path, again))
    assert "            over its maximum by vcore=1, as now" in result.out.splitlines()
    assert result.code == 0


async def test_a_plan_for_an_rm_on_hold_says_so(licorne: Licorne, server: Server, tmp_path: Path) -> None:
    """An RM on hold gets no allocations, so that the plan is not complete: the exit code is 7."""
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


async def test_a_plan_of_what_runs_says_so(licorne: Licorne, tmp_path: Path) -> None:
    """The configuration in force causes no change, and the exit code is 0."""
    result = await licorne("config", "plan", written(tmp_path, CONFIG))
    assert result.out == "plan for RM rm from revision 1: that is what runs, nothing changes\n"
    assert result.code == 0


async def test_a_plan_in_json_has_everything(licorne: Licorne, tmp_path: Path) -> None:
    """All fields under their names, the defaults too."""
    result = await licorne("config", "plan", written(tmp_path, WIDER), "rm", "-o", "json")
    plan = result.json
    assert (plan["baseRevision"], plan["changed"], plan["complete"]) == (1, True, True)
    assert plan["placed"][0]["allocationKey"] == "k2"
    assert {"partition", "path", "name", "value", "origin"} == plan["defaults"][0].keys()


@pytest.mark.parametrize(("text", "command"), [(WIDER, ("config", "plan")), (JOB, ("apps", "plan"))])
async def test_a_plan_in_yaml_says_what_it_says_in_json(
    licorne: Licorne, tmp_path: Path, text: str, command: tuple[str, ...]
) -> None:
    """Programs may have either form."""
    given = (*command, written(tmp_path, text), "-o")
    as_yaml = await licorne(*given, "yaml")
    assert yaml.safe_load(as_yaml.out) == (await licorne(*given, "json")).json


async def test_a_file_that_is_refused_is_refused_by_line(licorne: Licorne, tmp_path: Path) -> None:
    """Each problem has its line and column, and the exit code is 4."""
    path = written(tmp_path, CONFIG.replace("max: {vcore: 2}", "max: {vcore: -2}"))
    result = await licorne("config", "plan", path)
    where = f"{path}:9:38: partitions[0].queues[0].queues[0].resources.max.vcore"
    assert result.err == f"{where}: invalid quantity '-2' for vcore{VCORES}\n"
    assert (result.code, result.out) == (4, "")


async def test_a_stale_base_is_refused(licorne: Licorne, tmp_path: Path) -> None:
    """With the revision that is in force."""
    result = await licorne("config", "plan", written(tmp_path, WIDER), "--base", "4")
    assert result.code == 4
    assert "ABORTED: RM rm runs revision 1 of its configuration" in result.err


@pytest.mark.row(168)
async def test_a_submission_is_read_by_people(licorne: Licorne, tmp_path: Path) -> None:
    """The output has queue and nodes; the exit code is 0 if all asks are placed."""
    result = await licorne("apps", "plan", written(tmp_path, JOB))
    first, second, *rest = result.out.splitlines()
    assert first == "application job would go to queue root.b of [rm]default"
    assert second == "all that would happen in the next 6 s, if nothing else happens"
    assert rest[:2] == ["", "asks placed (3)"]
    assert rest[2].startswith("  job in root.b: 3 asks on n")
    assert (result.code, result.err) == (0, "")


@pytest.mark.row(168)
async def test_a_submission_says_who_would_be_evicted(licorne: Licorne, tmp_path: Path) -> None:
    """Victims are printed with beneficiary and time, and the exit code is 6."""
    large = JOB.replace("vcore: 1}", "vcore: 2}").partition("  - {name: exec")[0]
    result = await licorne("apps", "plan", written(tmp_path, large))
    [victim] = [line for line in result.out.splitlines() if line.startswith("  full/")]
    assert " of root.a on n" in victim
    assert "(vcore=1) after " in victim
    assert ": for job/driver" in victim
    assert "asks placed (1)" in result.out
    assert result.code == 6


async def test_a_submission_may_come_from_stdin(licorne: Licorne, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is YAML; a rejection has its reason."""
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
async def test_what_is_wrong_in_a_file_is_told_by_line(
    text: str, problems: list[str], tmp_path: Path, licorne: Licorne
) -> None:
    """All problems at once, with line and column."""
    path = written(tmp_path, text)
    result = await licorne("apps", "plan", path)
    told = [line.removeprefix(f"{path}:").lstrip() for line in result.err.splitlines()]
    assert (told, result.code) == (problems, 4)
