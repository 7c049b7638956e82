"""Known keys again: resizes, external placement; and foreign allocations (§§ 5.3.5, 7.3)."""

import pytest

from licorne_core.values.asks import Ask
from licorne_core.views.applications import AppReport
from licorne_core.views.nodes import NodeReport
from licorne_core.views.queues import QueueReport
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.core.contents import digest_of
from support.core.driver import Driver, keys, refused
from support.core.steps import last, listed

COUNTED = (
    "._registry.agenda._places['[rm1]default'].partition.allocations._asks._placeholders._counters"
    ".asks_received"
)
SMALL = config("[{name: a, resources: {max: {vcore: 10m}}}]")


class Town(Driver):
    """One queue with a maximum of ten, two nodes, one application, and looks at all of them."""

    def __init__(self) -> None:
        """Everything is empty."""
        super().__init__()
        self.do(register(SMALL), nodes(node("n1", vcore=20), node("n2", vcore=20)))
        self.do(apps(app("job", "root.a", user="sue")))
        self.partition = self.views.resolve(f"[{RM}]default")

    def job(self) -> AppReport:
        """The application."""
        return self.views.application(self.partition, "job")

    def queue(self) -> QueueReport:
        """Its leaf."""
        return self.views.queue(self.partition, "root.a")

    def node(self, node_id: str) -> NodeReport:
        """One node."""
        return self.views.node(self.partition, node_id)


def foreign(key: str, on_node: str, vcore: int) -> Ask:
    """An allocation of another scheduler."""
    made = ask("", key, on_node=on_node, vcore=vcore)
    made.tags = {"foreign": "default"}
    return made


@pytest.mark.row(111)
def test_a_running_allocation_grows_in_all_books() -> None:
    """A larger size counts for application, queue, node and user, even over the maximum."""
    town = Town()
    town.do(asks(ask("job", "k1", vcore=4)))
    assert town.do(asks(ask("job", "k1", vcore=15))) == []
    assert town.job().allocated == town.queue().allocated == {"vcore": 15}
    assert town.node("n1").allocated == {"vcore": 15}
    usage = last(town.views.usage(town.partition, "user", "sue")).queues
    assert usage.allocated == {"vcore": 15}
    assert keys(town.do(asks(ask("job", "k2", vcore=1)))) == [], "the queue is over its maximum"


@pytest.mark.row(112)
def test_an_unknown_node_leaves_the_ask_pending() -> None:
    """External placement on a node that is not there is refused, and the ask waits on."""
    town = Town()
    town.do(asks(ask("job", "k1", vcore=15)))
    reasons = refused(town.do(asks(ask("job", "k1", on_node="n9", vcore=15))))
    assert reasons == {"k1": "failed to find node n9"}
    assert town.job().pending_count == 1


@pytest.mark.row(111)
def test_nothing_but_the_size_of_a_known_key_changes() -> None:
    """Priority and age of a pending ask, and the node of an allocation, stay what they were."""
    town = Town()
    first = ask("job", "k1", vcore=11, priority=5, created=town.now - 9)
    town.do(asks(first, ask("job", "k2", vcore=4)))
    town.do(asks(ask("job", "k1", vcore=12, priority=-1), ask("job", "k2", on_node="n2", vcore=4)))
    pending = last(town.views.asks(town.partition, "job"))
    assert (pending.ask.priority, pending.request_time) == (5, town.now - 9)
    assert (pending.ask.ask_class.resources, town.job().pending) == ({"vcore": 12}, {"vcore": 12})
    assert [held.node_id for held, *_ in listed(town.views.allocations(town.partition, "job"))] == ["n1"]


@pytest.mark.row(110, 111)
@pytest.mark.parametrize("on_node", [None, "n1"], ids=["waits", "runs"])
def test_a_resize_to_nothing_is_refused(on_node: str | None) -> None:
    """Neither an ask nor an allocation shrinks to zero or below; it stays as it was."""
    town = Town()
    town.do(asks(ask("job", "k1", vcore=11, on_node=on_node)))
    for size, reason in ((0, "no resources"), (-1, "negative resources")):
        assert refused(town.do(asks(ask("job", "k1", vcore=size)))) == {"k1": f"allocation contains {reason}"}
    report = town.job()
    assert {**report.pending, **report.allocated} == {"vcore": 11}


@pytest.mark.row(111, 112)
def test_what_is_known_already_changes_nothing() -> None:
    """The same ask and the same allocation, sent again, move no bit but the count of asks."""
    town = Town()
    known = [ask("job", "k1", vcore=4), ask("job", "k2", vcore=11)]
    town.do(asks(*known))
    before = digest_of(town.scheduler)
    again = [ask("job", "k1", on_node="n1", vcore=4), ask("job", "k2", vcore=11)]
    assert town.do(asks(*again, *known[:2])) == []
    after = digest_of(town.scheduler)
    assert [way for way in before if before[way] != after.get(way)] == [COUNTED]
    assert before.keys() == after.keys()
