"""What RMs remember of usage outlives the server, and follows them to another one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from licorne_core.config import load
from licorne_core.extensions.fair_memory.messages import KeptUsage, UsageOwner
from licorne_core.extensions.hours.messages import KeptHours
from licorne_core.messages.commands import RemoveRm
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import PartitionName, QueuePath, RmId
from licorne_core.values.windows import Window
from licorne_server.process.fair import TimeSlices
from licorne_server.store.configurations.default_file import Default
from licorne_server.store.configurations.history import Configurations, Keeper
from licorne_server.store.configurations.memories import Memories, key_of, pack, unpack
from licorne_server.store.configurations.shared import SharedKeeper
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.peers.members import Documents
from support.wire.still import StillClock

RM = RmId("rm1")
DEFAULT = PartitionName("[rm1]default")
TEXT = config(
    "[{name: a, properties: {budget.vcore-hours: 5000m/month}}]", properties="{fairshare.half-life: 1h}"
)
OWNER = UsageOwner(QueuePath("root.a"), "")


class Member:
    """A core and what it keeps, at the time of the core."""

    def __init__(self, keeper: Keeper, epoch: int = 1) -> None:
        """Nobody has registered."""
        self.driver = Driver()
        self.driver.views.now = lambda: self.driver.now
        self.keeper = keeper
        clock = StillClock()
        self.configurations = Configurations(Default(), keeper, clock)
        slices = TimeSlices(lambda: False)
        self.memories = Memories(self.driver.views, self.configurations, clock, slices, lambda _: epoch)

    async def register(self, now: float) -> KeptByPartition:
        """The RM registers, with what is kept, and has something running."""
        self.driver.now = now
        memory = await self.memories.of(RM, load(TEXT), is_live=False)
        self.driver.do(replace(register(TEXT), memory=memory), nodes(node("n1", vcore=4)))
        self.driver.do(apps(app("x", "root.a")), asks(ask("x", "k1", vcore=4, on_node="n1")))
        return memory

    def used(self) -> tuple[float, float]:
        """Decayed usage, and hours of the month, of the queue at the time of the core."""
        report = self.driver.views.queue(DEFAULT, "root.a")
        share = report.extended["fair_share"]
        return share.decayed["vcore"], report.extended["hours_budgets"][0].used


@asynccontextmanager
async def kept_in(folder: Path) -> AsyncIterator[Keeper]:
    """A state directory, opened."""
    keeper = Keeper(folder)
    keeper.open()
    try:
        yield keeper
    finally:
        await keeper.close()


async def test_usage_outlives_the_server(tmp_path: Path) -> None:
    """A server that is killed half a minute after the last write knows the usage within one percent."""
    async with kept_in(tmp_path) as keeper:
        before = Member(keeper)
        assert await before.register(1_000_000.0) == {}
        before.driver.wait(1800.0)
        assert await before.memories.flush() == pytest.approx(18.0)
        before.driver.wait(30.0)
    async with kept_in(tmp_path) as keeper:
        after = Member(keeper)
        assert await after.register(1_001_830.0)
    assert after.used() == pytest.approx(before.used(), rel=0.01)
    for member in (before, after):
        member.driver.wait(3600.0)
    assert after.used() == pytest.approx(before.used(), rel=0.01)


async def test_usage_follows_the_rm_to_its_next_owner() -> None:
    """The next member has what the last one wrote; a late write of that one replaces nothing."""
    store = Documents()
    first = Member(SharedKeeper(store, lambda _: 1), epoch=1)
    await first.register(1_000_000.0)
    first.driver.wait(600.0)
    await first.memories.flush()
    second = Member(SharedKeeper(store, lambda _: 2), epoch=2)
    assert await second.register(1_000_600.0)
    assert second.used() == pytest.approx(first.used(), rel=1e-6)
    second.driver.wait(60.0)
    await second.memories.flush()
    written = await store.read(key_of(RM))
    first.driver.do(releases(release("x", "k1")))
    with capture_logs() as logs:
        await first.memories.flush()
    assert not logs
    assert await store.read(key_of(RM)) == written


@pytest.mark.parametrize("damage", [lambda value: value[:-3], lambda _: b"", lambda _: b"{}\nnonsense"])
async def test_what_cannot_be_read_starts_at_zero(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A torn, a lost and a wrong document are told, and the RM registers without memory."""
    async with kept_in(tmp_path) as keeper:
        member = Member(keeper)
        await member.register(1_000_000.0)
        member.driver.wait(60.0)
        await member.memories.flush()
        document = await keeper.document(key_of(RM))
        await keeper.replace_document(key_of(RM), damage(document.value), document.revision)
        with capture_logs() as logs:
            assert await Member(keeper).register(1_000_060.0) == {}
    [told] = [entry["event"] for entry in logs]
    assert "starts at zero" in told


async def test_nothing_is_read_or_written_without_a_need(tmp_path: Path) -> None:
    """An RM without half-life and budget of hours has no document."""
    async with kept_in(tmp_path) as keeper:
        member = Member(keeper)
        plain = load(config("[{name: a}]"))
        with capture_logs() as logs:
            assert await member.memories.of(RM, plain, is_live=False) == {}
        member.driver.do(register(config("[{name: a}]")))
        await member.memories.flush()
        assert not logs
        assert (await keeper.document(key_of(RM))).revision == 0


async def test_usage_of_a_forgotten_rm_is_deleted(tmp_path: Path) -> None:
    """What was used goes with the RM's configuration, with the next write."""
    async with kept_in(tmp_path) as keeper:
        member = Member(keeper)
        await member.register(1_000_000.0)
        member.driver.wait(60.0)
        await member.memories.flush()
        member.driver.do(RemoveRm(rm_id=RM))
        member.configurations.on_forget(RM)
        await member.memories.flush()
        assert (await keeper.document(key_of(RM))).revision == 0


MEMORY: KeptByPartition = {
    DEFAULT: {
        "fair_memory": {OWNER: KeptUsage(60.0, 1e6, {"vcore": 12.5}, {"vcore": 2}, {"vcore": 12.5})},
        "hours": {(OWNER.path, "gpu"): KeptHours(10**12, 10**25, 3, Window.WEEK)},
    }
}


def test_packing() -> None:
    """What is packed is unpacked as it was, numbers beyond 64 bits too."""
    assert unpack(pack(MEMORY)) == MEMORY


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (KeptUsage(0.0, 1.0, {}, {}, {}), "half-life is 0"),
        (KeptUsage(60.0, 1.0, {"vcore": float("nan")}, {}, {}), "nan is no number from 0 up"),
        (KeptUsage(60.0, 1.0, {"vcore": -1.0}, {}, {}), "-1.0 is no number from 0 up"),
        (KeptUsage(60.0, 1.0, {}, {"vcore": -1}, {}), "-1 is no whole number from 0 up"),
    ],
)
def test_numbers_that_cannot_be(kept: KeptUsage, why: str) -> None:
    """A document with numbers that no server writes is damaged."""
    with pytest.raises(ValueError, match=why):
        unpack(pack({DEFAULT: {"fair_memory": {OWNER: kept}}}))
