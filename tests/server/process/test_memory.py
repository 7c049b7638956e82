"""The memory limit of the process, with fake measurements."""

import asyncio
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from licorne_core.messages.commands import Command, RefuseNewWork
from licorne_core.values.rm_caps import MemoryShortage
from licorne_server.process.bounds import RmBounds
from licorne_server.process.memory import LOOKS_BETWEEN_RETURNS, LOOKS_BETWEEN_TELLINGS, Memory, System
from support.patience import PATIENCE
from support.peers.shim import Shim, ask, connected, new_allocations, node, serving

LIMIT = 800


class FakeSystem(System):
    """A system with fake measurements, which counts how often memory is returned."""

    def __init__(self) -> None:
        """Start with a small figure."""
        super().__init__()
        self.figure = 1
        self.returns = 0
        self.free: int | None = None

    def resident(self) -> int:
        """The resident memory."""
        return self.figure

    def available(self) -> int | None:
        """The available memory."""
        return self.free

    def give_back(self) -> None:
        """Count the return of memory."""
        self.returns += 1


@pytest.fixture
def system() -> FakeSystem:
    """A system with fake measurements."""
    return FakeSystem()


def watched(system: FakeSystem) -> tuple[Memory, list[Command]]:
    """The memory limit over the fake system, and the commands posted to the engine."""
    told: list[Command] = []
    return Memory(LIMIT, told.append, system), told


NONE, NEW, ALL = MemoryShortage.NONE, MemoryShortage.NEW, MemoryShortage.ALL


@pytest.mark.parametrize(
    ("figures", "levels"),
    [
        ((LIMIT, LIMIT + 1, LIMIT + 100, LIMIT + 101), (NONE, NEW, NEW, ALL)),
        ((LIMIT + 101, LIMIT + 1, LIMIT, 760, 759), (ALL, ALL, NEW, NEW, NONE)),
        ((LIMIT + 1, 760, LIMIT, 759, LIMIT), (NEW, NEW, NEW, NONE, NONE)),
        ((LIMIT + 1, 0), (NEW, NONE)),
    ],
)
async def test_the_level_of_memory_decides_which_work_is_refused(
    system: FakeSystem, figures: tuple[int, ...], levels: tuple[MemoryShortage, ...]
) -> None:
    """New work is refused above the limit, all work above 1.125 of it, nothing below 95 % of it."""
    memory, _ = watched(system)
    seen = []
    for system.figure in figures:
        memory.look()
        seen.append(memory.level)
    assert seen == list(levels)


async def test_refusals_have_the_present_figures(system: FakeSystem) -> None:
    """While memory is short the engine gets new figures, without further lines in the log."""
    memory, told = watched(system)
    with capture_logs() as logs:
        for system.figure in range(801, 801 + 2 * LOOKS_BETWEEN_TELLINGS + 1):
            memory.look()
    figures = [801, 801 + LOOKS_BETWEEN_TELLINGS, 801 + 2 * LOOKS_BETWEEN_TELLINGS]
    reason = "the process takes {} bytes of memory, and bounds.max_memory is 800"
    assert told == [RefuseNewWork(shortage=NEW, reason=reason.format(figure)) for figure in figures]
    assert len(logs) == 1


async def test_each_change_of_level_is_reported_once(system: FakeSystem) -> None:
    """Engine and log get each change of level once, with both figures."""
    memory, told = watched(system)
    with capture_logs() as logs:
        for system.figure in (1, 801, 802, 950, 951, 1, 2):
            memory.look()
    reason = "the process takes {} bytes of memory, and bounds.max_memory is 800"
    assert told == [
        RefuseNewWork(shortage=NEW, reason=reason.format(801)),
        RefuseNewWork(shortage=ALL, reason=reason.format(950)),
        RefuseNewWork(shortage=NONE, reason=""),
    ]
    assert [(entry["resident_bytes"], entry["limit_bytes"]) for entry in logs] == [
        (801, LIMIT),
        (950, LIMIT),
        (1, LIMIT),
    ]


async def test_memory_is_returned_occasionally(system: FakeSystem) -> None:
    """Freed memory is returned at the first measurement above the limit, and at every twentieth after it."""
    memory, _ = watched(system)
    system.figure = 2 * LIMIT

    async def look() -> None:
        memory.look()
        assert memory.returning is not None
        await memory.returning

    for number in range(2 * LOOKS_BETWEEN_RETURNS + 1):
        await look()
        assert system.returns == 1 + number // LOOKS_BETWEEN_RETURNS
    system.figure = 1
    for _ in range(2 * LOOKS_BETWEEN_RETURNS):
        await look()
    assert system.returns == 3


async def test_new_rms_are_refused(system: FakeSystem) -> None:
    """While memory is short new RMs are refused, with limit and value."""
    async with serving() as server, connected(server) as channel:
        await Shim(channel, "here").register()
        server.memory = Memory(LIMIT, server.engine.post, system)
        system.figure = LIMIT + 1
        server.memory.look()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel, "new").register()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == (
            "no new RM is taken: the process takes 801 bytes of memory, and bounds.max_memory is 800"
        )
        await Shim(channel, "here").register()
        system.figure = 1
        server.memory.look()
        await Shim(channel, "new").register()


async def test_rejected_asks_have_the_reason(system: FakeSystem) -> None:
    """While memory is short new asks are rejected with both figures; later they are accepted."""
    async with serving() as server, connected(server) as channel:
        shim = Shim(channel)
        allocations, _, nodes = await shim.set_up()
        server.memory = Memory(LIMIT, server.engine.post, system)
        for system.figure, shortage in ((LIMIT + 1, "801"), (2 * LIMIT, "1600")):
            server.memory.look()
            await shim.ask(allocations, ask("k"))
            [refused] = (await allocations.next()).rejectedAllocations
            assert refused.reason == (
                f"allocation k is refused: the process takes {shortage} bytes of memory, "
                "and bounds.max_memory is 800"
            )
        assert len((await shim.nodes(nodes, node("n9", vcore=1))).rejected) == 1
        system.figure = 1
        server.memory.look()
        await shim.ask(allocations, ask("k"))
        assert len(await new_allocations(allocations, 1)) == 1


async def test_a_server_measures_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a limit measures its process repeatedly."""
    looked = asyncio.Event()
    times = 0

    def resident(_: System) -> int:
        nonlocal times
        times += 1
        if times == 2:
            looked.set()
        return 1

    monkeypatch.setattr(System, "resident", resident)
    async with serving(rms=RmBounds(memory=LIMIT)), asyncio.timeout(PATIENCE):
        await looked.wait()


def group(root: Path, name: str, text: str) -> None:
    """Write a file of a control group."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        pytest.param("0::/", {"memory.max": "500"}, [500], id="version 2, in a container"),
        pytest.param("0::/", {"memory.max": "max"}, [], id="version 2 without a limit"),
        pytest.param(
            "0::/a/b",
            {"a/b/memory.max": "max", "a/memory.max": "300", "memory.max": "max"},
            [300],
            id="version 2, the limit of a group above",
        ),
        pytest.param(
            "4:cpu,memory:/docker/x\n0::/",
            {"memory/memory.limit_in_bytes": "200"},
            [200],
            id="version 1, in a container",
        ),
        pytest.param(
            "4:memory:/a\n3:cpu:/b",
            {"memory/a/memory.limit_in_bytes": "100", "memory/memory.limit_in_bytes": "200"},
            [100, 200],
            id="version 1",
        ),
        pytest.param("", {"memory.max": "500"}, [], id="no groups"),
    ],
)
def test_limits_of_control_groups(
    tmp_path: Path, membership: str, files: dict[str, str], limits: list[int]
) -> None:
    """Limits of the process's groups and their ancestors are found, of both versions."""
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        group(tmp_path / "groups", name, text)
    assert System(tmp_path, tmp_path / "groups").group_limits() == limits


def test_a_system_without_figures(tmp_path: Path) -> None:
    """Without the kernel's files resident memory is 0, and limits and available memory are unknown."""
    system = System(tmp_path, tmp_path, tmp_path / "meminfo")
    assert (system.resident(), system.group_limits(), system.available()) == (0, [], None)
    system.give_back()


@pytest.mark.parametrize(
    ("resident", "reckoned", "free", "refusal"),
    [
        (100, 20, None, ""),
        (100, 20, 46, ""),
        (100, 20, 45, "it may take 46 bytes of memory, and 45 are free"),
        (100, 1_000, 65, "it may take 66 bytes of memory, and 65 are free"),
        (738, 20, None, ""),
        (755, 20, None, "it may take 46 bytes of memory beside the 755 of the process, and "),
    ],
)
def test_copies_need_room(
    system: FakeSystem,
    monkeypatch: pytest.MonkeyPatch,
    resident: int,
    reckoned: int,
    free: int | None,
    refusal: str,
) -> None:
    """A copy counts as 1.5 times its RM's estimate, at most half of the process, against limit and free
    memory.
    """
    monkeypatch.setattr("licorne_server.process.memory.COPY_BYTES", 16)
    memory, _ = watched(system)
    system.figure, system.free = resident, free
    told = memory.shortage_for_copy(reckoned)
    assert told.startswith(refusal) if refusal else told == ""


async def test_no_copy_while_memory_is_short(system: FakeSystem) -> None:
    """A copy is refused with the same reason as other work."""
    memory, _ = watched(system)
    system.figure = LIMIT + 1
    memory.look()
    assert memory.shortage_for_copy(0) == memory.shortage != ""
    assert memory.returning is not None
    await memory.returning


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 7_000 * 1024),
        ({"memory.max": "5000", "memory.current": "3000"}, 2_000),
        (
            {
                "memory.max": "5000",
                "memory.current": "3000",
                "memory.stat": "anon 1000\ninactive_file 1500",
            },
            3_500,
        ),
        ({"memory.max": "5000", "memory.current": "6000"}, 0),
        ({"memory.max": "max", "memory.current": "6000"}, 7_000 * 1024),
    ],
    ids=["machine", "group", "files", "full", "no limit"],
)
def test_available_memory(tmp_path: Path, files: dict[str, str], free: int) -> None:
    """The least available memory of machine and groups counts; caches count as available."""
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    7000 kB\n")
    group(tmp_path, "cgroup", "0::/a")
    for name, text in files.items():
        group(tmp_path / "groups" / "a", name, text)
    assert System(tmp_path, tmp_path / "groups", machine).available() == free
