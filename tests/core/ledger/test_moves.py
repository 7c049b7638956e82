"""The table of accounts and the hand-written placement change the same totals."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.model.apps.requests import ACCOUNTS, POSTINGS, TRANSITIONS, RequestEvent
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AllocationKey, AppId, NodeId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

QUEUES = config(
    "[{name: p, queues: [{name: a, limits: "
    "[{limit: one, users: [ann], maxresources: {vcore: 500}, maxapplications: 9}]}, {name: b}]}]"
)


class Placed(NamedTuple):
    """An ask, and the event that places it."""

    app: str
    vcore: int
    priority: int
    event: RequestEvent


events = st.sampled_from([RequestEvent.ALLOCATE, RequestEvent.KEEP_ROOM, RequestEvent.ASSUME])
placings = st.lists(
    st.builds(Placed, st.sampled_from(["x", "y"]), st.integers(1, 3), st.integers(0, 2), events),
    min_size=1,
    max_size=12,
)


def world(placed: Sequence[Placed]) -> Partition:
    """A partition with two applications and these asks, all pending."""
    driver = Driver()
    driver.send(register(QUEUES))
    driver.send(nodes(node("n", vcore=100)))
    driver.send(apps(app("x", "root.p.a"), app("y", "root.p.b")))
    wanted = (
        ask(
            one.app,
            f"k{number}",
            priority=one.priority,
            placeholder=one.event is RequestEvent.KEEP_ROOM,
            group="g" if one.event is RequestEvent.KEEP_ROOM else "",
            vcore=one.vcore,
        )
        for number, one in enumerate(placed)
    )
    driver.send(asks(*wanted))
    return driver.partition


def books(partition: Partition) -> list[Any]:
    """All totals to which a request contributes."""
    told: list[Any] = [(n.available, n.linked, len(n.allocations)) for n in all_nodes(partition)]
    for one in partition.applications.values():
        told.append((one.allocated, one.placeholder_allocated, one.pending_total))
        told.append((one.pending_count, one.allocation_count, one.assumed_count))
        told.append((one.placeholder_count, one.priorities.top, one.submission_time))
        told.append([(key, request.state) for key, request in one.requests.items()])
        told.append([(group.waiting, group.assumed) for group in one.groups.values()])
        told.append([(tracker.allocated, *tracker.applications) for tracker in one.trackers])
    for queue in partition.tree.walk():
        told.append((queue.allocated, queue.pending, queue.priorities.top))
    tally, holdings = partition.tally, partition.rm.holdings
    return [*told, tally.requests, tally.allocations, holdings.counts(0)]


def all_nodes(partition: Partition) -> list[Any]:
    """All nodes of a partition."""
    return list(partition.nodes.by_id.values())


@pytest.mark.slow
@given(placings)
def test_the_hand_written_placement_equals_the_table(placed: list[Placed]) -> None:
    """The hand-written code for placements changes the same totals as the table of accounts."""
    by_hand, by_table = world(placed), world(placed)
    where = by_hand.nodes.by_id[NodeId("n")]
    for number, one in enumerate(placed):
        key = AllocationKey(f"k{number}")
        owner = by_hand.applications[AppId(one.app)]
        candidate = (by_hand.leaf_of(owner), owner, owner.requests[key], where)
        if one.event is RequestEvent.ASSUME:
            by_hand.allocations.assume(candidate, 5.0)
        else:
            by_hand.allocations.allocate(candidate, 5.0)
        owner = by_table.applications[AppId(one.app)]
        request = owner.requests[key]
        place = Allocation(request.ask, NodeId("n"), request.create_time, 5.0)
        by_table.moves.move(owner, request, one.event, place=place)
        assert books(by_hand) == books(by_table)


@pytest.mark.parametrize(("state", "event"), [*TRANSITIONS])
def test_postings_are_differences_of_two_rows_of_accounts(state: Any, event: RequestEvent) -> None:
    """The accounts left and entered by a transition are the difference between the rows of the two states."""
    left, entered = POSTINGS[state, event]
    before, after = set(ACCOUNTS[state]), set(ACCOUNTS[TRANSITIONS[state, event]])
    assert before - set(left) | set(entered) == after
    assert not set(left) & set(entered)
