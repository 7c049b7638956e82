"""Every ask that waits for a node is considered, however many leaves, applications and groups exist."""

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.model.apps.groups import AskGroup
from licorne_core.scheduling.waiting.wakeups import Backlog
from licorne_core.standard.reservations import review
from licorne_core.standard.reservations.extension import review_of
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from support.core.builders import MANY_RESERVED, app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, placed

DUE = "resources: {guaranteed: {vcore: 50m}}"
MANY = 40


def crowd(leaves: int, applications: int, groups: int) -> Driver:
    """A node n1 reserved for a borrower, and asks within their guarantees, of which only the last fits n1.

    Each leaf has this number of applications, each with asks of this number of sizes. All other asks fit
    no node.
    """
    core = Driver()
    queues = ", ".join(f"{{name: l{n}, {DUE}}}" for n in range(leaves))
    queues = f"[{{name: base}}, {{name: other}}, {queues}]"
    core.do(register(config(queues, properties=MANY_RESERVED)))
    # The capacity of the drained node counts, so the cluster does not count as full.
    core.do(nodes(node("n1", vcore=10), node("n2", NodeAction.CREATE_DRAIN, vcore=1000)))
    core.do(apps(app("base", "root.base"), app("other", "root.other")))
    core.do(asks(ask("base", "b1", vcore=4, on_node="n1"), ask("other", "big", vcore=8)))
    core.wait(3)
    partition = core.partition
    assert partition.nodes.by_id[NodeId("n1")].reservations
    names = [(f"l{n}", f"l{n}-a{m}") for n in range(leaves) for m in range(applications)]
    core.do(apps(*(app(name, f"root.{leaf}") for leaf, name in names)))
    wanted = [ask(name, f"{name}-k{n}", vcore=11 + n) for _, name in names for n in range(groups)]
    core.do(asks(*wanted[:-1], ask(names[-1][1], "last", vcore=3)))
    return core


@pytest.mark.parametrize(
    "ways", [(MANY, 1, 1), (1, MANY, 1), (1, 1, MANY)], ids=["leaves", "applications", "groups"]
)
def test_reviews_cover_groups_in_turn(ways: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each review considers the next eight groups, until the last group is placed."""
    monkeypatch.setattr(review, "MOST_GROUPS", 8)
    core = crowd(*ways)
    assert [key for _, key, _ in placed(core.wait(MANY / 8 + 1))] == ["last"]


def test_a_review_counts_as_work_of_its_turn() -> None:
    """Groups in a review count as tried, so that other partitions have their turns in time."""
    core = crowd(1, MANY, 1)
    partition = core.partition
    search = review_of(partition).search
    before = search.work
    core.wait(1)
    assert search.work >= before + MANY * search.of_a_try
    assert partition.effort.cost >= search.work // search.of_a_try


def test_a_group_keeps_its_place_in_the_backlog_when_it_is_tried_again() -> None:
    """Groups are considered in the order in which they began to wait, even if they are tried again."""
    backlog = Backlog()
    groups = [AskGroup(None, (AskClass.of({"vcore": n}), "", False)) for n in range(1, 6)]
    for group in groups:
        group.nowhere = True
        backlog.note(group, lacks=True)
    heard: list[AskGroup | None] = []
    for group in groups * 2:
        backlog.note(group, lacks=True)
        heard += backlog.next_groups(1)
    assert heard == groups * 2


def test_a_placed_group_is_dropped_from_the_backlog() -> None:
    """The entry of a placed group is dropped at its turn; a group that waits again gets a new entry."""
    backlog = Backlog()
    first, second = (AskGroup(None, (AskClass.of({"vcore": n}), "", False)) for n in (1, 2))
    for group in (first, second):
        group.nowhere = True
        backlog.note(group, lacks=True)
    first.nowhere = False
    assert list(backlog.next_groups(9)) == [None, second]
    first.nowhere = True
    backlog.note(first, lacks=True)
    assert list(backlog.next_groups(9)) == [second, first]
