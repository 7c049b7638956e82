"""`licorne bench neighbour` and `manyrms` at a tiny size: every attack acts and ends.

Nothing here depends on speed. One attack is tried with the other tests.
"""

import asyncio
import json
import math
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from licorne.si.v1.si_pb2 import AllocationRequest, ApplicationRequest, NodeRequest
from licorne.v1.session_pb2 import UpdateRequest
from licorne_cli.commands import main
from licorne_server.wire.caps import MAX_ITEM_BYTES, MAX_MESSAGE_BYTES
from licorne_tools.bench.driver import UPDATE_ALLOCATION, BenchError
from licorne_tools.bench.isolation import frames, latency, messages
from licorne_tools.bench.isolation.attack import RM, Site
from licorne_tools.bench.isolation.catalogue import ATTACKS
from licorne_tools.bench.isolation.crowd import InGo
from licorne_tools.bench.older_core import go
from licorne_tools.bench.programs import begun
from licorne_tools.bench.report import Run
from licorne_tools.commands.isolation import COLUMNS
from support.patience import PATIENCE

SMOKE = "asks"
"""The attack that runs with the fast tests."""
TINY = ("--seconds", "0.2", "--percent", "1", "--nodes", "3")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `licorne bench` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "licorne_server", "bench", *arguments, *TINY],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == SMOKE else pytest.mark.bench) for name in ATTACKS],
)
def test_every_attack_acts_and_ends(name: str) -> None:
    """The JSON on stdout has the figures of both phases, and the actions of the attack."""
    done = bench("neighbour", "--attack", name, "--json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)
    assert (result["scenario"], result["name"]) == ("neighbour", name)
    assert (result["seconds"], result["percent"], result["nodes"]) == (0.2, 1, 3)
    [run] = result["runs"]
    assert run.keys() == {
        *(f"{when}_{what}" for when in ("alone", "beside") for what in ("p50_ms", "p99_ms")),
        *(f"{when}_{what}" for when in ("alone", "beside") for what in ("worst_ms", "samples")),
        "p99_ratio",
        "attack_acts",
        "attack_refused",
    }
    assert all(math.isfinite(value) for value in run.values())
    assert run["alone_samples"] == run["beside_samples"] == 4
    assert isinstance(result["holds"], bool)


@pytest.mark.bench
@pytest.mark.parametrize("client", ["Python", *(["Go"] if go() else [])])
def test_many_rms_are_measured_with_and_without_a_flood(
    client: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The JSON has the figures of one RM, of all, and of all beside the flood, and the RMs' processes."""
    if client == "Python":
        monkeypatch.setenv("PATH", str(tmp_path))
    done = bench("manyrms", "--rms", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert f"the RMs are in {client}" in done.stderr
    [result] = json.loads(done.stdout)
    assert result["client"] == client
    assert (result["scenario"], result["name"], result["rate"]) == ("manyrms", "3", 5.0)
    [run] = result["runs"]
    assert run["one_samples"] == run["many_samples"] == run["flooded_samples"] == 6
    assert {"many_p99_ratio", "flooded_p99_ratio", "idle_percent"} <= run.keys()
    assert run["many_cpu_us"] > 0 < run["many_client_cpu_us"]
    assert all(math.isfinite(value) for value in run.values())


@pytest.mark.bench
@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("neighbour", "--attack", "ping"), "ping"), (("manyrms", "--rms", "2"), "2")],
)
def test_the_table_has_a_verdict_for_each_line(arguments: tuple[str, ...], name: str) -> None:
    """Each attack, or number of RMs, has a line with the verdict on the target."""
    done = bench(*arguments)
    assert done.returncode == 0, done.stderr
    title, header, *rows = done.stdout.splitlines()
    assert title.startswith(f"{arguments[0]}: ")
    assert header.split()[0] == ("BESIDE" if name == "ping" else "RMS")
    assert header.split()[-1] == "HOLDS"
    [cells] = [row.split() for row in rows]
    assert len(cells) == len(COLUMNS[arguments[0]]) + 2
    assert cells[0] == name
    assert cells[-1] in ("yes", "no")
    assert all(math.isfinite(float(cell.replace(",", ""))) for cell in cells[1:-1])


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_failed_attack_does_not_stop_others(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure is printed with the other lines, and with its exit code."""

    async def beside(_: latency.Setting, attack: str) -> Run:
        if attack == "nodes":
            raise BenchError("the server is gone")
        return dict.fromkeys(COLUMNS["neighbour"].values(), 1.0)

    monkeypatch.setattr("licorne_tools.bench.isolation.latency.beside", beside)
    assert main(["bench", "neighbour", *options]) == 2
    shown = capsys.readouterr()
    assert "licorne: nodes: the server is gone\n" in shown.err
    if options:
        names = [part["name"] for part in json.loads(shown.out)]
    else:
        names = [row.split()[0] for row in shown.out.splitlines()[2:]]
    assert names == [name for name in ATTACKS if name != "nodes"]


PLAYER = """
import json, sys
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"waits_us": [1500] * asked["rms"] * asked["asks"], "cpu": asked["rate"]}), flush=True)
"""


async def test_processes_of_rms_report_each_phase() -> None:
    """Requests, and the waits of asks, are lines on their pipes."""
    async with begun("the RMs", sys.executable, "-c", PLAYER) as program:
        asked = await InGo(program).ask(2, 3, 0.5)
        assert (asked.waits, asked.cpu) == ([0.0015] * 6, 0.5)
        assert len((await InGo(program).ask(500, 40, 0.5)).waits) == 20_000


async def test_rms_that_end_early_fail_the_bench() -> None:
    """The message about the failure names the RMs."""
    async with begun("the RMs", sys.executable, "-c", "print('ready')") as program:
        with pytest.raises(BenchError, match="the RMs failed"):
            await InGo(program).ask(1, 1, 1.0)


def test_the_figures_of_waits() -> None:
    """Median, 99th percentile and worst are in milliseconds."""
    assert latency.waits("x", [number / 1000 for number in range(200, -1, -1)]) == {
        "x_p50_ms": 100,
        "x_p99_ms": 198,
        "x_worst_ms": 200,
        "x_samples": 201,
    }


@pytest.mark.parametrize(
    ("alone", "beside", "worst", "holds"),
    [
        (1.0, 25.0, 50.0, True),
        (10.0, 30.0, 50.0, True),
        (1.0, 25.1, 26.0, False),
        (10.0, 30.1, 31.0, False),
        (1.0, 2.0, 50.1, False),
    ],
)
def test_the_target_beside_an_attack(alone: float, beside: float, worst: float, holds: bool) -> None:
    """The 99th percentile must be within three times that alone or 25 ms, and the worst within 50 ms."""
    run = {"alone_p99_ms": alone, "beside_p99_ms": beside, "beside_worst_ms": worst}
    assert latency.holds_beside(run) is holds


@pytest.mark.parametrize(
    ("rms", "many", "flooded", "holds"),
    [
        (100, 1.0, 10.0, True),
        (10, 1.0, 10.1, False),
        (500, 250.0, 900.0, True),
        (500, 250.1, 1.0, False),
    ],
)
def test_the_target_of_many_rms(rms: int, many: float, flooded: float, holds: bool) -> None:
    """Up to 100 RMs wait at most 10 ms beside a flood, and 500 at most 250 ms without one."""
    assert latency.holds_of_many(rms, {"many_p99_ms": many, "flooded_p99_ms": flooded}) is holds


def test_the_largest_messages_are_close_to_the_cap() -> None:
    """All messages are within the cap of a message, and close to it or to the cap of an item."""
    site = Site(target="", http="")
    made = [data for _, data in messages.si_messages(site)] + messages.session_messages(site)
    assert all(len(data) <= MAX_MESSAGE_BYTES for data in made)
    assert sum(len(data) > MAX_ITEM_BYTES - 2 * messages.ROOM for data in made) == len(made) - 1


def test_the_largest_messages_are_valid() -> None:
    """A library parses the messages: they name the RM, and have contents of their kind."""
    site = Site(target="", http="", percent=1)
    kinds: dict[str, Callable[[bytes], AllocationRequest | ApplicationRequest | NodeRequest]] = {
        UPDATE_ALLOCATION: AllocationRequest.FromString,
        messages.UPDATE_APPLICATION: ApplicationRequest.FromString,
        messages.UPDATE_NODE: NodeRequest.FromString,
    }
    parsed = [kinds[method](data) for method, data in messages.si_messages(site)]
    assert {message.rmID for message in parsed} == {RM}
    _, several, many, some, releases, _, _, application, _ = parsed
    assert isinstance(several, AllocationRequest)
    assert len(several.allocations) == 1
    assert isinstance(many, AllocationRequest)
    assert isinstance(some, AllocationRequest)
    assert len(many.allocations) > 10_000 > len(some.allocations) > 900
    assert isinstance(releases, AllocationRequest)
    assert len(releases.releases.allocationsToRelease) > 10_000
    assert isinstance(application, ApplicationRequest)
    assert len(application.new[0].ugi.groups) > 10_000
    [session] = messages.session_messages(site)
    [answer] = UpdateRequest.FromString(session).predicate_answers.answers
    assert len(answer.refused) > 10_000


def test_frames_have_the_form_of_http2() -> None:
    """Length, type, flags and stream precede the content (RFC 9113 § 4.1)."""
    assert frames.frame(frames.SETTINGS) == bytes.fromhex("000000 04 00 00000000")
    assert frames.frame(frames.PING, bytes(8)) == bytes.fromhex("000008 06 00 00000000") + bytes(8)
    assert frames.frame(frames.DATA, b"x", 5, frames.END_STREAM) == bytes.fromhex("000001 00 01 00000005 78")


def test_numbers_have_the_form_of_hpack() -> None:
    """The numbers equal the examples of RFC 7541 § C.1, and the edge between one byte and two."""
    assert frames.number(0, 5, 10) == bytes.fromhex("0a")
    assert frames.number(0, 5, 1337) == bytes.fromhex("1f9a0a")
    assert frames.number(0, 8, 42) == bytes.fromhex("2a")
    assert (frames.number(0x80, 7, 126), frames.number(0x80, 7, 127)) == (b"\xfe", b"\xff\x00")


def test_costly_metadata_fills_the_table() -> None:
    """The metadata has room in HPACK's table of 4,096 bytes; later calls name it in few bytes."""
    name, value = frames.COSTLY
    assert len(name) + len(value) + 32 <= 4096
    assert frames.NAMED * (len(name) + len(value) + 32) < 16 * 1024
    assert len(frames.head(frames.GET_SERVER) + frames.costly(first=False)) < 120
    assert name.encode() in frames.costly(first=True)


class Server(asyncio.Protocol):
    """A server of frames that announces a small window, and then ends the connection."""

    def __init__(self, received: bytearray) -> None:
        """Add received data to this list."""
        self._received = received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set a window of four bytes, and later add two."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(frames.frame(frames.SETTINGS, bytes.fromhex("0004 00000004")))

    def data_received(self, data: bytes) -> None:
        """Continue once the first four bytes have arrived."""
        self._received += data
        if self._received.endswith(frames.frame(frames.DATA, b"d", 1)):
            for stream in (0, 1):
                self._transport.write(frames.frame(frames.WINDOW_UPDATE, bytes.fromhex("00000002"), stream))
        if self._received.endswith(frames.frame(frames.DATA, b"f", 1)):
            self._transport.close()


async def test_data_follows_the_window_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte is sent without room for it, and a cut connection is a refusal."""
    monkeypatch.setattr(frames, "FRAMES_AT_ONCE", 2)
    received = bytearray()
    listening = await asyncio.get_running_loop().create_server(lambda: Server(received), "127.0.0.1", 0)
    site = Site(target=f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", http="")

    async def act(peer: frames.Peer) -> None:
        peer.begin(1, b"head")
        # The window is known only once the server has sent it.
        await peer.settled.wait()
        await peer.data(1, b"abcdef", 1)
        await asyncio.Event().wait()

    async with listening:
        await frames.connected(site, 1, act)
    sent = b"".join(frames.frame(frames.DATA, bytes([each]), 1) for each in b"abcdef")
    assert received.startswith(frames.PREFACE)
    assert sent in bytes(received)
    assert site.refused == 1


@pytest.mark.slow
def test_an_attack_ends_with_its_parent() -> None:
    """The end of its stdin stops the attack, even before it has begun."""
    # PING frames need no preparation, so the attack starts at once.
    with subprocess.Popen(
        [sys.executable, "-m", "licorne_tools.bench.isolation.catalogue", "ping", "x", "x", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        ended = os.pidfd_open(process.pid)
        assert not select.select([ended], [], [], 0)[0]
        process.stdin.close()
        assert select.select([ended], [], [], PATIENCE)[0]
        os.close(ended)
        assert json.loads(process.stdout.read()) == {"acts": 0, "refused": 0}
