"""The worlds of the demo."""

from collections import Counter

import pytest

from licorne_core.config import load
from licorne_server.lab.demo.planned import LARGE, PRETRAINING, RANKS, TUNING, planned_worlds
from licorne_server.lab.demo.rm import DemoRm
from licorne_server.lab.demo.world import BORROWING, CLAIMING, NIGHTLY, SIMULATION, STANDING, World, worlds


@pytest.mark.parametrize(
    "world",
    [*worlds(), *planned_worlds()],
    ids=lambda world: f"{world.rm_id}{' planned' * world.declares}",
)
def test_demo_worlds_are_valid(world: World) -> None:
    """Configurations are accepted, ids are unique, and submissions are in order of time."""
    load(world.config)
    apps = [submission.application.application_id for submission in world.submissions]
    keys = [ask.key for submission in world.submissions for ask in submission.asks]
    assert len(apps) == len(set(apps))
    assert len(keys) == len(set(keys)) == world.asks
    times = [submission.at for submission in world.submissions]
    assert sorted(times) == times


def test_demo_worlds_are_large_and_repeatable() -> None:
    """There are three RMs and a few thousand asks, with users, namespaces and priorities, always the same."""
    all_worlds = worlds()
    work = [submission for world in all_worlds for submission in world.submissions]
    assert all_worlds == worlds()
    assert len({world.config for world in all_worlds}) == 3
    assert 2000 < sum(world.asks for world in all_worlds) < 10_000
    assert len({item.application.user for item in work}) > 10
    assert len({item.application.tags["namespace"] for item in work}) > 4
    assert len({ask.priority for item in work for ask in item.asks}) > 10
    assert all(item in work for item in (NIGHTLY, BORROWING, CLAIMING, SIMULATION))


def test_the_gang_of_the_demo_has_a_member_for_each_placeholder() -> None:
    """Each placeholder is replaced by a member of the same task group and size."""
    [group] = SIMULATION.application.task_groups
    assert len(SIMULATION.asks) == group.members
    for member in SIMULATION.asks:
        assert (member.task_group, member.resources) == (group.name, group.resources)


def test_the_demo_claims_exactly_its_guarantee() -> None:
    """The borrower uses the whole shared maximum, and the claims are exactly the guarantee."""
    borrowed = sum(ask.resources["vcore"] for ask in BORROWING.asks)
    claimed = sum(ask.resources["vcore"] for ask in CLAIMING.asks)
    config = next(world.config for world in worlds() if world.rm_id == "batch")
    [partition] = load(config).partitions
    [shared] = [queue for queue in partition.root.queues if queue.name == "shared"]
    [owner] = [queue for queue in shared.queues if queue.name == "owner"]
    assert shared.max == {"vcore": borrowed}
    assert owner.guaranteed == {"vcore": claimed}


def test_the_planned_work_of_the_demo_is_large() -> None:
    """A large ask takes a whole node of its RM, and the gang most of one rack, but not of two."""
    batch, _, research = planned_worlds()
    assert all(node.capacity == LARGE.asks[0].resources for node in batch.nodes)
    assert LARGE in batch.submissions
    assert PRETRAINING in research.submissions
    assert research.standing == (TUNING,)
    assert TUNING.application.gang_min < len(TUNING.asks) == TUNING.application.gang_max
    racks: Counter[tuple[str, str]] = Counter()
    for node in research.nodes:
        place = node.attributes["zone"], node.attributes["rack"]
        racks[place] += min(node.capacity[name] // RANKS.resources[name] for name in RANKS.resources)
    assert len(racks) == 4
    assert all(slots // 2 < RANKS.members <= slots for slots in racks.values())
    [settings] = {load(research.config).partitions[0].root.properties["topology.levels"]}
    assert settings == "zone,rack"
    assert load(batch.config).partitions[0].root.properties["backfill"] == "easy"


def test_declared_runtimes_are_kept() -> None:
    """A declared runtime is in whole seconds and not shorter than the played one; endless work has none."""
    rm = DemoRm(planned_worlds()[0], 60.0)
    assert rm.declared(LARGE) == 10
    assert rm.declared(STANDING) == 0
    assert DemoRm(worlds()[0], 60.0).declared(LARGE) == 0
