"""The escrow of a budget between members that die, pause, and take RMs over from each other."""

import random
from contextlib import nullcontext

import pytest

from licorne_core.values.ids import RmId
from licorne_server.rms.budgets.escrow import NotReleased
from licorne_server.rms.budgets.slices import Escrowed, Holding, decode, encode
from licorne_server.store.documents.encoding import Unreadable
from support.escrow_world import KEY, LEASE, LICENCE, World

RUNS = 60
STEPS = 800
RM0, RM1, RM2, RM3 = (RmId(f"rm{number}") for number in range(4))


def played(seed: int) -> World:
    """A world after some hundred random steps."""
    world = World(random.Random(seed))
    world.store.faults = world.rng.choice((0.0, 0.05, 0.3))
    for rm_id in world.rms:
        world.take(rm_id, world.rng.choice(world.owners))
    for owner in world.owners:
        world.replayed(owner)
    for _ in range(STEPS):
        world.step()
        world.check()
        world.check_cores()
    return world


def settled_world(*owners: int, limit: int = 20) -> World:
    """A world without faults, with RMs on these members, after the period of settling."""
    world = World(random.Random(1), limit=limit)
    for rm_id, number in zip(world.rms, owners, strict=False):
        world.take(rm_id, world.owners[number])
    world.calm()
    world.rounds(20)
    return world


@pytest.mark.parametrize("part", range(10))
def test_the_total_is_always_within_the_budget(part: int) -> None:
    """Whatever fails, pauses or is late, RMs never use more than the budget, except after replays."""
    for seed in range(part * RUNS // 10, (part + 1) * RUNS // 10):
        try:
            played(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_wants_that_fit_are_granted_after_the_faults(part: int) -> None:
    """After the last fault each RM gets what it wants if that fits, and no unused amount stays charged."""
    for seed in range(part * 8, part * 8 + 8):
        world = played(seed)
        world.calm()
        for rm in world.rms.values():
            rm.wanted = min(rm.wanted, 3)
        for rm_id, rm in world.rms.items():
            world.free(rm_id, rm.used)
        world.rounds(60)
        assert not [rm for rm in world.rms.values() if rm.wanted], f"seed {seed}: {world.document()}"
        total = sum(held.slice[LICENCE] for held in world.document().holdings.values())
        assert total <= world.limit, f"seed {seed}"


@pytest.mark.parametrize("compares", [True, False])
def test_a_remainder_is_granted_once(compares: bool) -> None:
    """Overlapping rounds never grant the same remainder twice; this needs compare-and-set."""
    world = settled_world(0, 1)
    world.store.compares = compares
    world.rms[RM0].wanted = world.rms[RM1].wanted = 20
    busy = world.owners[:2]
    while busy:
        busy = [owner for owner in busy if not owner.step()]
    with nullcontext() if compares else pytest.raises(AssertionError, match="40 of 20"):
        for number, rm_id in enumerate((RM0, RM1)):
            world.allocate(world.owners[number], rm_id, 20)


def holding(world: World, rm_id: RmId) -> Holding:
    """An RM's part of the document."""
    return world.document().holdings[rm_id]


def test_the_slice_of_a_dead_owner_stays_charged_until_the_replay() -> None:
    """No other RM gets the slice of an RM whose owner died; the next owner has the same slice."""
    world = settled_world(0, 1)
    world.rms[RM0].wanted = 18
    world.rounds(4)
    world.owners[0].alive = False
    world.owners.pop(0)
    world.rms[RM1].wanted = 20
    world.rounds(10)
    assert world.rms[RM1].used == 2
    world.free(RM0, 10)
    world.take(RM0, world.owners[0])
    world.rounds(10)
    assert world.rms[RM1].used == 2, "it has not replayed yet"
    world.replayed(world.owners[0])
    world.rounds(30)
    assert (world.rms[RM0].used, world.rms[RM1].used) == (8, 12)


def test_a_replay_above_the_slice_is_an_overdraft() -> None:
    """The excess of a replay over the remainder is recorded, stops nothing, and prevents new starts."""
    world = settled_world(0, 1)
    world.rms[RM1].wanted = 13
    world.rounds(4)
    world.rms[RM0].used = world.rms[RM0].extra = 14
    world.take(RM0, world.owners[0])
    world.replayed(world.owners[0])
    for rm in world.rms.values():
        rm.wanted = 5
    world.rounds(10)
    assert [rm.used for rm in world.rms.values()][:2] == [14, 13]
    assert holding(world, RM0).overdraft == {LICENCE: 7}
    assert world.document().rest() == {LICENCE: -7}
    for rm_id in (RM1, RM2, RM3):
        world.rms[rm_id].wanted = 0
    world.free(RM1, 8)
    world.rounds(20)
    assert not holding(world, RM0).overdraft
    assert world.document().rest()[LICENCE] >= 0
    assert sum(rm.used for rm in world.rms.values()) == 20


def test_a_lowered_limit_stops_nothing() -> None:
    """Slices are cut; nothing is allocated until the usage of all RMs is below the new limit."""
    world = settled_world(0, 1)
    world.rms[RM0].wanted = world.rms[RM1].wanted = 10
    world.rounds(30)
    assert [rm.used for rm in world.rms.values()][:2] == [10, 10]
    world.limit, world.lowered_from, world.revision = 8, 20, 2
    world.rms[RM0].wanted = world.rms[RM1].wanted = 5
    for rm_id, left in ((RM0, 15), (RM1, 10), (RM0, 7)):
        world.rounds(10)
        held = world.document().holdings.values()
        assert sum(one.slice[LICENCE] for one in held) <= 8
        total = world.rms[RM0].used + world.rms[RM1].used
        world.free(rm_id, total - left)
        world.rounds(10)
        assert world.rms[RM0].used + world.rms[RM1].used == max(8, left)


def test_an_unused_slice_is_granted_to_another_rm() -> None:
    """Within seconds the unused slice of one RM is granted to another; the used part remains."""
    world = settled_world(0, 1)
    world.rms[RM0].wanted = 20
    world.rounds(4)
    world.free(RM0, 15)
    world.rms[RM0].wanted, world.rms[RM1].wanted = 0, 12
    begin = world.now
    while world.rms[RM1].wanted and world.now < begin + 10:
        world.rounds(1)
    assert world.now - begin < 5
    assert holding(world, RM0).slice[LICENCE] >= 5


def test_a_late_write_does_not_shrink_a_slice() -> None:
    """An abandoned write that arrives late cannot shrink a slice below that of the core."""
    world = settled_world(0)
    world.rms[RM0].wanted = 20
    world.rounds(4)
    world.free(RM0, 16)
    owner = world.owners[0]
    world.store.faults = 1.0
    while not world.store.late:
        world.now += 1.0
        owner.step()
    while owner.work is not None:
        owner.step()
    world.store.faults = 0.0
    world.rms[RM0].wanted = 16
    for _ in range(3):
        while not owner.step():
            pass
        world.allocate(owner, RM0, 16)
    assert world.rms[RM0].used == 20
    world.store.land()
    world.check_cores()


def test_a_slice_used_recently_is_kept() -> None:
    """A pause between two jobs does not cost an RM its fair share, though another RM wants it."""
    world = settled_world(0, 1)
    world.rms[RM0].wanted = 10
    world.rounds(4)
    world.rms[RM1].wanted = 20
    world.rounds(4)
    writes = world.store.writes
    for _ in range(40):
        world.free(RM0, 10)
        world.rounds(1)
        world.rms[RM0].wanted = 10
        world.rounds(2)
    assert (world.rms[RM0].used, world.rms[RM1].used) == (10, 10)
    assert world.store.writes - writes < 10


def test_grants_are_large_while_there_is_plenty() -> None:
    """A series of single asks needs one write for many of them; the last amounts are granted one by one."""
    world = settled_world(0, limit=800)
    writes = world.store.writes
    for _ in range(400):
        world.rms[RM0].wanted = 1
        world.rounds(1)
    assert world.rms[RM0].used == 400
    assert world.store.writes - writes < 20


def test_wants_are_granted_in_turn() -> None:
    """An RM that always wants more does not keep another from the first free licences."""
    world = settled_world(0, 1, 2)
    world.rms[RM0].wanted = 100
    world.rounds(4)
    world.rms[RM1].wanted = 4
    world.rounds(2)
    world.rms[RM2].wanted = 4
    world.rounds(2)
    world.rms[RM0].wanted = 0
    world.free(RM0, 4)
    world.rounds(30)
    assert (world.rms[RM1].used, world.rms[RM2].used) == (4, 0)


@pytest.mark.parametrize(("limit", "count"), [(3, 3), (3, 4), (20, 3), (1000, 4)])
def test_busy_rms_get_fair_shares(limit: int, count: int) -> None:
    """Though one RM had everything at first, each runs most of its share within a minute and a half."""
    world = settled_world(0, 1, 2, 1, limit=limit)
    busy = list(world.rms.values())[:count]
    busy[0].wanted = 2 * limit
    world.rounds(4)
    ran = [0] * count
    for _ in range(360):
        for number, (rm_id, rm) in enumerate(list(world.rms.items())[:count]):
            world.free(rm_id, rm.used // 8 or 1)
            rm.wanted = 2 * limit
            assert rm.owner is not None
            world.allocate(rm.owner, rm_id, limit)
            ran[number] += rm.used
        world.rounds(1)
    assert min(ran) >= 0.6 * sum(ran) / count, ran
    assert sum(ran) >= 0.8 * 360 * limit, ran


def test_an_unwanted_share_is_divided() -> None:
    """Small needs are granted completely, and the remaining limit is shared by the larger ones."""
    world = settled_world(0, 1, 2)
    world.rms[RM0].wanted = 100
    world.rounds(4)
    world.rms[RM1].wanted, world.rms[RM2].wanted = 3, 100
    for _ in range(80):
        for rm_id in (RM0, RM2):
            world.free(rm_id, 1)
            world.rms[rm_id].wanted = 100
        world.rounds(1)
    assert world.rms[RM1].used == 3
    assert min(world.rms[RM0].used, world.rms[RM2].used) >= 7


def test_an_rm_without_an_owner_can_be_released() -> None:
    """The command frees the slices of an RM without an owner, and is refused for others."""
    world = settled_world(0, 1)
    world.rms[RM1].wanted = 20
    world.rounds(4)
    with pytest.raises(NotReleased, match="rm1 is served"):
        world.release(RM1)
    world.owners.pop(1).alive = False
    assert world.release(RM1) == 1
    assert RM1 not in world.document().holdings
    assert world.release(RM1) == 0


def test_a_wiped_store_grants_nothing_before_all_usage_is_charged() -> None:
    """Members that do not notice a wipe spend their slices, and the total stays within the limit."""
    world = settled_world(0, 1, 2)
    for rm_id in (RM0, RM1, RM2):
        world.rms[rm_id].wanted = 6
    world.rounds(20)
    world.free(RM2, 5)
    world.store.documents.clear()
    world.store.revision = 0
    end = world.now + 0.9 * LEASE
    for number in (0, 1):
        world.restart(number)
    for rm in world.rms.values():
        rm.wanted = 20
    late = world.owners.pop()
    while world.now < end:
        world.rounds(1)
        world.allocate(late, RM2, 1)
    world.owners.append(late)
    world.restart(2)
    world.rounds(40)
    assert sum(rm.used for rm in world.rms.values()) == 20


def test_a_removed_budget_leaves_nothing_behind() -> None:
    """Owners return their slices of a removed budget; the last owner removes its document."""
    world = settled_world(0, 1)
    world.rms[RM0].wanted = world.rms[RM1].wanted = 5
    world.rounds(10)
    world.revision, world.removed = 2, True
    world.rounds(10)
    assert KEY not in world.store.documents


def test_documents_are_read_as_they_were_written() -> None:
    """All fields of a document survive its encoding."""
    one = Holding(epoch=7, slice={LICENCE: 3}, overdraft={LICENCE: 1}, want={"gpu": 2}, turn=5)
    budget = Escrowed(
        limit={LICENCE: 9, "gpu": 4},
        revision=3,
        scope="s",
        settling="m 1",
        serial=8,
        turns=5,
        holdings={RM0: one},
    )
    assert decode(encode(budget)) == budget


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        encode(Escrowed(limit={"a": 1}, revision=1)).replace(b"1", b"-1"),
    ],
    ids=["empty", "no text", "a list", "no fields", "deep", "a negative amount"],
)
def test_other_documents_are_refused(content: bytes) -> None:
    """A document that is not one of a budget is reported as damaged."""
    with pytest.raises(Unreadable):
        decode(content)
