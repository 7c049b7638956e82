"""Asks that cause a back-off of their application, and those that do not (spec § 8.3a)."""

from collections.abc import Iterable

import pytest

from licorne_core.extensions.back_off.counting import backs_off
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker, first_exceeded
from licorne_core.values.ids import AppId, QueuePath, UserGroup
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, keys


def application(
    stuck: Iterable[int], others: Iterable[int] = (), *, predicate: str | None = None
) -> Application:
    """An application with asks of these arrivals: stuck ones in two groups, placeable ones in a third."""
    made = Application(AppId("app"), QueuePath("root.a"), UserGroup("ann", ()), {}, 0.0)
    made.leaf = Queue("a", None, is_leaf=True, managed=True)
    for arrival in sorted([*stuck, *others]):
        size = 1 + arrival % 2 if arrival in stuck else 9
        wanted = ask("app", f"k{arrival}", predicate=predicate, vcore=size)
        request = Request(wanted, 0.0, arrival)
        made.requests[request.key] = request
        made.enqueue(made.group_of(wanted), request, 0.0)
    for group in made.groups.values():
        group.unplaceable = not is_other(group)
    return made


def exceeds(group: AskGroup) -> bool:
    """Whether a quota of the application blocks the group."""
    return first_exceeded(group.app.quotas, group.ask_class.items) is not None


def is_other(group: AskGroup) -> bool:
    """Whether the asks of the group can be placed."""
    return group.ask_class.items == (("vcore", 9),)


def found(made: Application, arrival: int) -> bool:
    """Whether an application, after two blocked asks, backs off when this ask could be placed."""
    place = next(r.place for r in made.requests.values() if r.arrival == arrival)
    return backs_off(made, 2, place, exceeds, asking=True)


def test_only_asks_before_the_first_placeable_one_count() -> None:
    """Blocked asks of any class count up to the first placeable ask, and not after it."""
    assert found(application([1, 2], [3]), 3)
    assert found(application([1, 3], [5]), 5)
    assert not found(application([1, 4], [3]), 3)
    assert not found(application([4, 5, 6], [3]), 3)


def test_without_a_placeable_ask_one_more_blocked_ask_is_needed() -> None:
    """The last blocked ask delays no other ask, so a further one is needed."""
    assert not backs_off(application([1, 2]), 2, None, exceeds, asking=True)
    assert backs_off(application([1, 2, 3]), 2, None, exceeds, asking=True)
    assert backs_off(application([1, 2], [3]), 2, None, exceeds, asking=True)
    assert not backs_off(application([2, 3], [1]), 2, None, exceeds, asking=True)
    assert not backs_off(application([1], [2]), 2, None, exceeds, asking=True)


@pytest.mark.parametrize(("asking", "expected"), [(True, True), (False, False)])
def test_asks_blocked_by_open_checks_do_not_count(*, asking: bool, expected: bool) -> None:
    """While too many checks are open, asks that need an answer of the RM are not tried and do not count."""
    made = application([1, 2, 3], predicate="p")
    assert backs_off(made, 2, None, exceeds, asking=asking) is expected
    assert backs_off(application([1, 2, 3]), 2, None, exceeds, asking=asking)


def test_asks_that_now_exceed_a_quota_do_not_count() -> None:
    """Asks without a node do not count once their user's quota blocks them."""
    made = application([1, 2, 3])
    quota = Tracker("user", "ann", QueuePath("root"))
    quota.max = {"vcore": 2}
    made.quotas = (quota,)
    assert backs_off(made, 2, None, exceeds, asking=True)
    quota.allocated["vcore"] = 1
    assert not backs_off(made, 2, None, exceeds, asking=True)


def test_a_back_off_does_not_block_asks_with_a_reserved_node() -> None:
    """Asks with a reserved node are placed in a back-off, and other asks are not tried (spec § 8.6)."""
    properties = "{application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 9s}"
    core = Driver()
    core.do(
        register(config(f"[{{name: a, properties: {properties}}}, {{name: f}}]")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.f"), app("own", "root.a")),
        asks(ask("fill", "f1", vcore=6), ask("fill", "f2", vcore=6)),
        asks(ask("own", "big", vcore=8)),
    )
    core.wait(3)
    core.do(asks(ask("own", "small", vcore=1)))
    assert "backs off" in core.explain("own", "small").summary
    assert keys(core.do(releases(release("fill", "f1")))) == ["big"]
    assert "backs off" in core.explain("own", "small").summary
    assert keys(core.wait(9)) == ["small"]
