"""Waiting items, their blockers, and wake-ups."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, group_key
from licorne_core.model.apps.requests import Request
from licorne_core.scheduling.order import Holder
from licorne_core.scheduling.waiting import waiting
from licorne_core.scheduling.waiting.blockers import Blocker, RunningLimit
from licorne_core.scheduling.waiting.waiting import Parked
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import AllocationKey, AppId
from support.core.builders import ask
from support.core.trees import NODE, QUOTAS, World


def in_order(world: World, items: list[Any]) -> list[Any]:
    """The items in order; an application precedes the items in it."""
    return sorted(items, key=world.place)


ops = st.one_of(
    st.tuples(st.just("park"), st.integers(0, 11), st.integers(0, QUOTAS - 1)),
    st.tuples(st.just("park app"), st.integers(0, 5), st.integers(0, QUOTAS - 1)),
    st.tuples(st.just("unpark"), st.integers(0, 11), st.just(0)),
    st.tuples(st.just("group key"), st.integers(0, 11), st.integers(-5, 5)),
    st.tuples(st.just("app key"), st.integers(0, 5), st.integers(-5, 5)),
    st.tuples(st.just("queue key"), st.integers(0, 3), st.integers(-5, 5)),
    st.tuples(st.just("free"), st.integers(0, QUOTAS - 2), st.integers(0, 3)),
)


def carry_out(world: World, what: str, which: int, value: int) -> None:
    """Apply one change to the world."""
    line = world.waiting
    match what:
        case "park":
            # Items in a parked application, and parked items, are not examined.
            if world.groups[which].app.blocker is None and world.groups[which].blocker is None:
                line.park(world.groups[which], world.limit(value))
        case "park app":
            line.unpark_inside(world.apps[which])
            line.unpark(world.apps[which])
            line.park(world.apps[which], world.limit(value))
        case "unpark":
            line.unpark(world.groups[which])
        case "group key":
            group = world.groups[which]
            line.unpark(group)
            group.app.ranking.put(group, (value, which))
        case "app key":
            app = world.apps[which]
            line.unpark(app)
            app.leaf.ranking.put(app, (value, app.app_id))
        case "queue key":
            queue = world.queues[which]
            assert queue.parent is not None
            queue.parent.ranking.put(queue, (value, queue.path))
        case _:
            world.free(which, value)


def expected_of(world: World, opened: set[int]) -> list[Parked]:
    """The active or passed items and those inside them, found by a scan of all items in order."""
    room = {n: world.quotas[n].max_applications - 1 for n in range(QUOTAS)}
    found: list[Parked] = []
    for app in in_order(world, world.apps):
        if app.blocker is None or _let(world, app.blocker, room, opened):
            tried = [
                group
                for group in in_order(world, [g for g in world.groups if g.app is app])
                if group.blocker is None or _let(world, group.blocker, room, opened)
            ]
            if tried or app.blocker is not None:
                found += [app, *tried]
    return found


def _let(world: World, blocker: Blocker, room: dict[int, int], opened: set[int]) -> bool:
    assert isinstance(blocker, RunningLimit)
    number = world.quotas.index(blocker.quota)  # type: ignore[arg-type]
    if number not in opened or room[number] <= 0:
        return False
    room[number] -= 1
    return True


COSTS = [0, waiting.HEAD_COST, 1000]
"""Values of `HEAD_COST`: with the lowest a pass compares open blockers, with the highest each item."""


@given(st.lists(st.lists(ops, max_size=25), max_size=4), st.sampled_from(COSTS))
def test_a_pass_examines_items_of_a_full_scan(rounds: list[list[tuple[str, int, int]]], cost: int) -> None:
    """A pass examines, in order, active items and items that an open blocker lets through.

    Each such item uses room of the blocker; an item that finds its blocker shut remains parked.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(waiting, "HEAD_COST", cost)
        _compare_passes(rounds)


def _compare_passes(rounds: list[list[tuple[str, int, int]]]) -> None:
    world = World()
    for changes in rounds:
        for change in changes:
            carry_out(world, *change)
            world.check()
        opened = {
            n
            for n, quota in enumerate(world.quotas)
            if (limit := world.limits.of(RunningLimit).get(quota)) is not None and limit.lets_through()
        }
        for number in opened:
            world.waiting.changed(world.limit(number))
        blockers = {item: item.blocker for item in world.items}
        expected = expected_of(world, opened)
        tried: list[Parked] = []

        def try_item(item: Parked) -> bool:
            blocker = blockers[item]  # noqa: B023 - used in this round only
            assert item.blocker is None
            if blocker is not None:
                world.take(blocker)
            if isinstance(item, AskGroup):
                world.waiting.park(item, world.limit(QUOTAS - 1))
            tried.append(item)  # noqa: B023 - the same
            return True

        for _ in world.visit(world.tree.root, try_item):
            world.check()
        world.waiting.end_pass()
        # An application without items that can be tried may be examined once; none of its items is tried.
        idle = {item for item in tried if item not in expected}
        assert all(isinstance(item, Application) and blockers[item] is None for item in idle)
        assert [item for item in tried if item not in idle] == expected
        world.check()


def test_only_the_first_waiting_item_is_woken() -> None:
    """A change with room for one ask lets only the first waiting item through."""
    world = World()
    for group in world.groups:
        world.waiting.park(group, world.limit(0))
    world.free(0, 1)
    woken = [item for item in _pass(world) if isinstance(item, AskGroup)]
    assert woken == in_order(world, world.groups)[:1]
    assert _pass(world) == []


@pytest.mark.parametrize("cost", COSTS)
def test_items_let_through_during_a_pass_are_in_order(cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are in order even if another blocker opens, or a key decreases, during the pass."""
    monkeypatch.setattr(waiting, "HEAD_COST", cost)
    world = World()
    root, first, last = world.tree.root, world.groups[0], world.groups[-1]
    for number, group in enumerate((first, last, world.groups[4])):
        world.waiting.park(group, world.limit(number))
    _pass(world)
    world.free(1, 1)
    assert world.waiting.first(root.ranking) is last.app.leaf.parent
    world.free(0, 1)
    assert world.waiting.first(root.ranking) is first.app.leaf
    world.free(2, 1)
    between = last.app.leaf.parent.ranking
    assert world.waiting.first(between) is world.groups[4].app.leaf
    between.put(last.app.leaf, (-1, last.app.leaf.path))
    between.set_aside(last.app.leaf)
    assert world.waiting.first(between) is last.app.leaf


@pytest.mark.parametrize("cost", COSTS)
def test_waiting_items_do_not_overtake_active_items(cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open blocker lets no item overtake active items ahead of it."""
    monkeypatch.setattr(waiting, "HEAD_COST", cost)
    world = World()
    first, second = (group for group in world.groups if group.app is world.apps[0])
    world.waiting.park(second, world.limit(0))
    world.free(0, 1)
    assert world.waiting.first(world.apps[0].ranking) is first
    assert second.blocker is world.limit(0)
    world.waiting.unpark(second)
    world.waiting.park(first, world.limit(0))
    world.free(0, 1)
    assert world.waiting.first(world.apps[0].ranking) is first
    assert first.blocker is None


def test_an_open_blocker_without_suitable_items_is_shut() -> None:
    """An open blocker that lets no item through is shut, and its items remain parked."""
    world = World()
    world.waiting.park(world.groups[0], world.limit(0))
    world.free(0, 1)
    world.take(world.limit(0))
    assert world.groups[0] not in _pass(world)
    assert world.groups[0].blocker is world.limit(0)
    world.quotas[0].max_applications = 5
    assert _pass(world) == []


def test_an_item_waits_only_for_its_latest_blocker() -> None:
    """An item that is parked twice leaves its first blocker, which is removed if it has no other item."""
    world = World()
    world.waiting.park(world.groups[0], world.limit(0))
    world.waiting.park(world.groups[0], world.limit(1))
    assert world.limits.of(RunningLimit).get(world.quotas[0]) is None
    assert world.groups[0].blocker is world.limit(1)
    world.free(0, 1)
    assert world.groups[0] not in _pass(world)
    world.free(1, 1)
    assert world.groups[0] in _pass(world)


def test_a_blocker_exists_while_it_has_an_item() -> None:
    """A blocker is removed with its last waiting item, an ask group or a reserved ask."""
    world = World()
    limit = world.limit(0)
    reservation = Reservation(AppId("x"), AllocationKey("k"), NODE, 0.0, required=False, items=())  # type: ignore[arg-type]
    request = Request(ask("x", "k", vcore=1), 0.0, 1)
    group = world.groups[0]
    world.reserved.add(reservation, Holder(group.app.leaf, group.app, request))
    world.reserved.park(reservation, (limit,))
    world.waiting.park(world.groups[0], limit)
    world.waiting.park(world.groups[3], limit)
    for group in (world.groups[0], world.groups[3]):
        assert world.limits.of(RunningLimit).get(world.quotas[0]) is limit
        world.waiting.unpark(group)
    assert world.limits.of(RunningLimit).get(world.quotas[0]) is limit
    world.waiting.changed(limit)
    assert world.limits.of(RunningLimit).get(world.quotas[0]) is None
    assert reservation in world.reserved.ready


def test_the_contents_of_a_parked_application_are_not_examined() -> None:
    """The items in a parked application are not examined, and are tried once it is unparked."""
    world = World()
    app = world.apps[0]
    inside = [group for group in world.groups if group.app is app]
    for group in inside:
        world.waiting.park(group, world.limit(0))
    _pass(world)
    world.waiting.unpark_inside(app)
    world.waiting.park(app, world.limit(1))
    assert world.limits.of(RunningLimit).get(world.quotas[0]) is None
    assert _pass(world) == []
    world.free(1, 1)
    assert _pass(world) == [app, *inside]


def test_an_unparked_item_unparks_its_application() -> None:
    """A parked application is unparked when an item in it is unparked."""
    world = World()
    app, group = world.apps[0], world.groups[0]
    world.waiting.park(app, world.limit(0))
    world.waiting.park(group, world.limit(1))
    world.waiting.unpark(group)
    assert (app.blocker, group.blocker) == (None, None)
    assert not world.limits.of(RunningLimit)
    assert _pass(world)[:2] == [app, group]


def test_a_change_requests_a_pass() -> None:
    """A change requests a pass, even without waiting items."""
    world = World()
    assert not world.waiting.runnable
    world.waiting.changed(world.limit(0))
    assert world.waiting.runnable


def test_the_end_of_a_pass_shuts_open_blockers() -> None:
    """The end of a pass shuts open blockers, and the next change opens them again."""
    world = World()
    world.waiting.park(world.groups[0], world.limit(0))
    world.free(0, 3)
    world.waiting.end_pass()
    assert world.groups[0] not in _pass(world)
    world.waiting.changed(world.limit(0))
    assert world.groups[0] in _pass(world)


def test_asks_of_one_class_have_one_group() -> None:
    """Asks of one class have the same group, whatever their priority."""
    one, two = ask("a", "1", vcore=1), ask("a", "2", vcore=1, priority=9)
    assert group_key(one) == group_key(two) != group_key(ask("a", "3", vcore=2))


def _pass(world: World) -> list[Parked]:
    """Process all items that a pass examines, each of which uses room of its blocker; return the items."""
    blockers = {item: item.blocker for item in world.items}

    def try_item(item: Parked) -> bool:
        blocker = blockers[item]
        if blocker is not None:
            world.take(blocker)
        if isinstance(item, AskGroup):
            item.app.ranking.set_aside(item)
        return True

    found = list(world.visit(world.tree.root, try_item))
    world.waiting.end_pass()
    return found
