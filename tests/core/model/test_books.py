"""Bookings can be undone in any order (DESIGN § 2)."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy, QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.books import (
    book,
    book_demand,
    book_foreign,
    book_on_node,
    unbook_demand,
    unbook_in_quotas,
    unbook_on_node,
)
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.quotas import Tracker
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.ids import AppId, NodeId, PartitionName, QueuePath, UserGroup
from licorne_core.values.resources import Items
from support.core.contents import attributes_of
from support.core.trees import whole_tree

AMOUNTS = {"capacity", "allocated", "available", "occupied", "pending", "pending_total"}
"""The attributes with amounts of the books."""

kinds = st.sampled_from(["book", "demand", "on node", "foreign"])
sizes = st.dictionaries(st.sampled_from(["vcore", "memory", "gpu"]), st.integers(1, 9), min_size=1)


class World(NamedTuple):
    """Two nodes, and two applications of one user in two leaves."""

    tree: QueueTree
    nodes: list[Node]
    apps: list[Application]
    wakeups: Wakeups

    def book(self, kind: str, size: Mapping[str, int], which: int) -> None:
        """Make one booking."""
        items, node, app = items_of(size), self.nodes[which % 2], self.apps[which // 2]
        match kind:
            case "book":
                book(items, node, app)
            case "demand":
                book_demand(items, app, app.leaf)
            case "on node":
                book_on_node(items, node)
            case _:
                book_foreign((), items, node)

    def unbook(self, kind: str, size: Mapping[str, int], which: int) -> None:
        """Undo a booking with the same arguments."""
        items, node, app = items_of(size), self.nodes[which % 2], self.apps[which // 2]
        match kind:
            case "book":
                unbook_on_node(items, node)
                unbook_in_quotas(items, app)
            case "demand":
                unbook_demand(items, app, app.leaf)
            case "on node":
                unbook_on_node(items, node)
            case _:
                book_foreign(items, (), node)

    def dump(self) -> str:
        """All attributes of all objects with totals, with resources sorted by name."""
        things: list[Any] = [*self.nodes, *self.apps, *self.tree.walk()]
        things += [tracker for app in self.apps for tracker in app.trackers]
        told = [{name: shown(getattr(thing, name)) for name in attributes_of(thing)} for thing in things]
        told.append({"runnable": self.wakeups.waiting.runnable})
        return json.dumps(told, sort_keys=True)

    def dump_but_amounts(self) -> str:
        """The state without the amounts that bookings change."""
        told = json.loads(self.dump())
        return json.dumps([{k: v for k, v in thing.items() if k not in AMOUNTS} for thing in told])


def items_of(size: Mapping[str, int]) -> Items:
    """The amounts as sorted pairs of name and value, as in asks."""
    return tuple(sorted(size.items()))


def shown(value: Any) -> Any:
    """A value in JSON: amounts by name, any other object by its class and length."""
    if isinstance(value, dict):
        return {str(name): shown(amount) for name, amount in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return f"{type(value).__name__} of {len(value) if hasattr(value, '__len__') else 1}"


def new_world() -> World:
    """An empty world, in which one node has a type that the other lacks."""
    leaves = (QueueConfig(name="a"), QueueConfig(name="b"))
    tree = whole_tree(QueueConfig(name="root", parent=True, queues=leaves))
    book_of_nodes = NodeBook(NodeSortPolicy())
    for name, capacity in (("n0", {"vcore": 100, "memory": 100}), ("n1", {"vcore": 100})):
        book_of_nodes.add(Node(NodeId(name), capacity, {}, schedulable=True))
    apps = []
    ann = Tracker("user", "ann", QueuePath("root"))
    for name in "ab":
        leaf = tree.get(f"root.{name}")
        assert isinstance(leaf, Queue)
        app = Application(AppId(f"app-{name}"), leaf.path, UserGroup("ann", ()), {}, 0.0)
        app.leaf = leaf
        app.trackers = (Tracker("user", "ann", leaf.path), ann)
        app.quotas = (*app.trackers, *leaf.lineage)
        apps.append(app)
    return World(
        tree, list(book_of_nodes.by_id.values()), apps, Wakeups(book_of_nodes, PartitionName("[rm]default"))
    )


bookings = st.lists(st.tuples(kinds, sizes, st.integers(0, 3)), max_size=20)


@given(bookings, st.randoms(use_true_random=False))
def test_undoing_bookings_in_any_order_restores_the_totals(
    wanted: list[tuple[str, dict[str, int], int]], random: Any
) -> None:
    """After bookings are undone in any order, nodes, queues, users and applications are as before."""
    world = new_world()
    # One booking remains, so that not all totals return to zero.
    world.book("book", {"vcore": 3}, 0)
    world.book("demand", {"gpu": 2}, 3)
    before = world.dump()
    undone = list(wanted)
    random.shuffle(undone)
    for kind, size, which in wanted:
        world.book(kind, size, which)
    for kind, size, which in undone:
        world.unbook(kind, size, which)
    assert world.dump() == before


@pytest.mark.slow
@given(bookings)
def test_a_booking_changes_only_totals(wanted: list[tuple[str, dict[str, int], int]]) -> None:
    """A booking changes no version, result, score or ranking, and wakes no item."""
    world = new_world()
    for node in world.nodes:
        node.results[("class", True)] = "refused"  # type: ignore[index]
    before = world.dump_but_amounts()
    for kind, size, which in wanted:
        world.book(kind, size, which)
        assert world.dump_but_amounts() == before
    for kind, size, which in wanted:
        world.unbook(kind, size, which)
        assert world.dump_but_amounts() == before


def test_a_booking_counts_only_in_its_own_quotas() -> None:
    """A booking counts in its node, application, user and queues up to root, and in no sibling."""
    world = new_world()
    world.book("book", {"vcore": 4}, 0)
    (n0, n1), (first, second), root = world.nodes, world.apps, world.tree.root
    assert (n0.allocated, n0.available) == ({"vcore": 4}, {"vcore": 96, "memory": 100})
    assert (n1.allocated, second.allocated, second.leaf.allocated) == ({}, {}, {})
    for quota in first.quotas:
        assert quota.allocated == {"vcore": 4}
    assert root.allocated == first.allocated == {"vcore": 4}
    assert second.trackers[0].allocated == {}


def test_pending_amounts_count_in_the_application_and_its_queues() -> None:
    """Pending amounts count in the application, leaf and root, and not as usage of a user or node."""
    world = new_world()
    world.book("demand", {"vcore": 4}, 2)
    first, second = world.apps
    assert second.pending_total == second.leaf.pending == world.tree.root.pending == {"vcore": 4}
    assert (first.leaf.pending, second.allocated) == ({}, {})
    assert all(not quota.allocated for quota in second.quotas)


def test_an_amount_of_a_missing_type_is_removed_with_its_booking() -> None:
    """A booked type that a node lacks has a negative available amount until the booking is undone."""
    world = new_world()
    world.book("on node", {"gpu": 2}, 1)
    assert world.nodes[1].available == {"vcore": 100, "gpu": -2}
    world.unbook("on node", {"gpu": 2}, 1)
    assert world.nodes[1].available == {"vcore": 100}


def test_a_resized_foreign_allocation_replaces_its_amount() -> None:
    """The new size of a foreign allocation counts instead of the former one."""
    world = new_world()
    node = world.nodes[0]
    book_foreign((), (("vcore", 5),), node)
    book_foreign((("vcore", 5),), (("memory", 7),), node)
    assert node.occupied == {"memory": 7}
    assert node.available == {"vcore": 100, "memory": 93}
