"""Stored usage of RMs outlives the server, and follows them to another one."""

import json
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
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.memories import Memories, MemoryForm
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import MAX_DOCUMENT, Documents, StoreError
from licorne_server.store.documents.kept import Kept
from licorne_server.store.documents.owned import Damaged, content_of, headed, pack, unpack
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.members import Documents as Store
from support.wire.still import StillClock

RM = RmId("rm1")
DEFAULT = PartitionName("[rm1]default")
TEXT = config(
    "[{name: a, properties: {budget.vcore-hours: 5000m/month}}]", properties="{fairshare.half-life: 1h}"
)
FORM = MemoryForm()
KEY = FORM.key_of(RM)
OWNER = UsageOwner(QueuePath("root.a"), "")


class Member:
    """A core with its stored usage, at the time of the core."""

    def __init__(self, documents: Documents, epoch: int = 1) -> None:
        """Start without a registered RM."""
        self.driver = Driver()
        self.driver.views.now = lambda: self.driver.now
        clock = StillClock()
        self.configurations = Configurations(Default(), documents, clock, lambda _: epoch)
        slices = TimeSlices(lambda: False)
        self.memories = Memories(self.driver.views, self.configurations, clock, slices, lambda _: epoch)

    async def register(self, now: float) -> KeptByPartition:
        """Register the RM with its stored usage, and place an allocation."""
        self.driver.now = now
        memory = await self.memories.of(RM, load(TEXT), is_live=False)
        self.driver.do(replace(register(TEXT), memory=memory), nodes(node("n1", vcore=4)))
        self.driver.do(apps(app("x", "root.a")), asks(ask("x", "k1", vcore=4, on_node="n1")))
        return memory

    def used(self) -> tuple[float, float]:
        """The queue's decayed usage, and its hours of the month, at the time of the core."""
        report = self.driver.views.queue(DEFAULT, "root.a")
        share = report.extended["fair_share"]
        return share.decayed["vcore"], report.extended["hours_budgets"][0].used


@asynccontextmanager
async def kept_in(folder: Path) -> AsyncIterator[Kept]:
    """An open state directory."""
    documents = Kept(Disk(folder))
    documents.open()
    try:
        yield documents
    finally:
        await documents.close()


async def test_usage_outlives_the_server(tmp_path: Path) -> None:
    """A server that was killed half a minute after the last write has the usage within one percent."""
    async with kept_in(tmp_path) as documents:
        before = Member(documents)
        assert await before.register(1_000_000.0) == {}
        before.driver.wait(1800.0)
        assert await before.memories.flush() == pytest.approx(18.0)
        before.driver.wait(30.0)
    async with kept_in(tmp_path) as documents:
        after = Member(documents)
        assert await after.register(1_001_830.0)
    assert after.used() == pytest.approx(before.used(), rel=0.01)
    for member in (before, after):
        member.driver.wait(3600.0)
    assert after.used() == pytest.approx(before.used(), rel=0.01)


async def test_usage_follows_the_rm_to_its_next_owner() -> None:
    """The next member has the state that was written last; a late write of the old owner has no effect."""
    store = Store()
    first = Member(store, epoch=1)
    await first.register(1_000_000.0)
    first.driver.wait(600.0)
    await first.memories.flush()
    second = Member(store, epoch=2)
    assert await second.register(1_000_600.0)
    assert second.used() == pytest.approx(first.used(), rel=1e-6)
    second.driver.wait(60.0)
    await second.memories.flush()
    written = await store.read(KEY)
    first.driver.do(releases(release("x", "k1")))
    with capture_logs() as logs:
        await first.memories.flush()
    assert not logs
    assert await store.read(KEY) == written


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda _: b"", lambda _: b"nonsense"])
async def test_an_unreadable_document_starts_at_zero(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A truncated, a lost and a wrong document are logged, and the RM registers without usage."""
    async with kept_in(tmp_path) as documents:
        member = Member(documents)
        await member.register(1_000_000.0)
        member.driver.wait(60.0)
        await member.memories.flush()
        document = documents.get(KEY)
        damaged = headed(damage(content_of(document.value)), 1)
        await documents.compare_and_set(KEY, damaged, document.revision)
        with capture_logs() as logs:
            assert await Member(documents).register(1_000_060.0) == {}
    [told] = [entry["event"] for entry in logs]
    assert "starts at zero" in told


async def test_documents_are_used_only_where_needed(tmp_path: Path) -> None:
    """An RM without half-life and budget of hours has no document."""
    async with kept_in(tmp_path) as documents:
        member = Member(documents)
        plain = load(config("[{name: a}]"))
        with capture_logs() as logs:
            assert await member.memories.of(RM, plain, is_live=False) == {}
        member.driver.do(register(config("[{name: a}]")))
        await member.memories.flush()
        assert not logs
        assert documents.get(KEY).revision == 0


async def test_usage_of_a_forgotten_rm_is_deleted(tmp_path: Path) -> None:
    """Usage is deleted with the RM's configuration."""
    async with kept_in(tmp_path) as documents:
        member = Member(documents)
        await member.register(1_000_000.0)
        member.driver.wait(60.0)
        await member.memories.flush()
        member.driver.do(RemoveRm(rm_id=RM))
        member.configurations.on_forget(RM)
        await member.memories.end()
        assert documents.get(KEY).revision == 0


MEMORY: KeptByPartition = {
    DEFAULT: {
        "fair_memory": {OWNER: KeptUsage(60.0, 1e6, {"memory": 1e25}, {"vcore": 2}, {"memory": 1e25})},
        "hours": {(OWNER.path, "gpu"): KeptHours(10**12, 10**25, 3, Window.WEEK)},
    }
}
DOCUMENT = {
    "format": 2,
    "usage": [[DEFAULT, "root.a", "", 60.0, 1e6, {"memory": 1e25}, {"vcore": 2}]],
    "hours": [[DEFAULT, "root.a", "gpu", 10**12, 10**25, 3, "week"]],
}


def test_a_document_can_be_decoded() -> None:
    """Documents have the layout of older members and sums beyond 64 bits, and can be decoded."""
    content = FORM.encode(RM, MEMORY, MAX_DOCUMENT)
    assert json.loads(unpack(content)) == DOCUMENT
    assert FORM.decode(RM, content) == MEMORY


async def test_a_document_of_a_newer_server_is_refused(tmp_path: Path) -> None:
    """The RM is refused with the name of the document and both formats."""
    newer = pack(json.dumps({**DOCUMENT, "format": 4}).encode())
    async with kept_in(tmp_path) as documents:
        await documents.compare_and_set(KEY, headed(newer, 1), 0)
        with pytest.raises(StoreError, match=f"'{KEY}': format 4 is newer than 2, which this version reads"):
            await Member(documents).register(1_000_000.0)
        assert content_of(documents.get(KEY).value) == newer


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    """A number that JSON lacks is refused when it is written."""
    kept = KeptUsage(60.0, 1.0, {"vcore": number}, {}, {})
    with pytest.raises(StoreError, match="a number that cannot be"):
        FORM.encode(RM, {DEFAULT: {"fair_memory": {OWNER: kept}}}, MAX_DOCUMENT)


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (KeptUsage(0.0, 1.0, {}, {}, {}), "Expected `float` > 0"),
        (KeptUsage(60.0, 1.0, {"vcore": -1.0}, {}, {}), "Expected `float` >= 0"),
        (KeptUsage(60.0, 1.0, {}, {"vcore": -1}, {}), "Expected `int` >= 0"),
    ],
)
def test_impossible_numbers_are_refused(kept: KeptUsage, why: str) -> None:
    """A document with a number that no server writes is damaged."""
    memory = {DEFAULT: {"fair_memory": {OWNER: kept}}}
    with pytest.raises(Damaged, match=why):
        FORM.decode(RM, FORM.encode(RM, memory, MAX_DOCUMENT))
