"""Dimensions without limits or readers do not increase the cost of an ask or an allocation."""

from functools import partial

import pytest

from licorne_core.messages.commands import Tick
from licorne_core.scheduler import Scheduler
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.steps import lines_of_core

pytestmark = pytest.mark.pure

LIMITED_GROUP = "limits: [{limit: '', groups: [dev], maxapplications: 9}]"

PER_ASK = 7
"""Executed lines of code that an ask may cost for each resource type: two in each of the two queues, two in
its application, and one to spare."""

PER_ALLOCATION = 45
"""Executed lines that an allocation may cost for each resource type, now 40: changes of usage and demand in
both queues, application and node, and comparisons with maximum, room and share."""


def cost(*, types: int = 1, levels: int = 1, groups: tuple[str, ...] = ()) -> tuple[int, int]:
    """The executed lines of code for one more ask, and for its allocation, after others of the same size."""
    path, queues = "root", "[{name: leaf}]"
    for level in range(1, levels):
        path, queues = (
            f"{path}.level{levels - level}",
            f"[{{name: level{level}, queues: {queues}}}]",
        )
    size = {f"type{number:02}": 1 for number in range(types)}
    scheduler = Scheduler()
    for command in (
        register(config(queues).replace("submitacl", f"{LIMITED_GROUP}, submitacl")),
        nodes(node("n1", size=dict.fromkeys(size, 100))),
        apps(app("one", f"{path}.leaf", groups=groups)),
        asks(*(ask("one", f"early{number}", size=size) for number in range(5))),
        Tick(decisions=3),
    ):
        scheduler.handle(command, 1.0)
    late = asks(ask("one", "late", size=size))
    asked = lines_of_core(lambda: scheduler.handle(late, 1.0))
    return asked, lines_of_core(lambda: scheduler.handle(Tick(decisions=1), 1.0))


def test_queues_without_a_limit_of_a_group_cost_nothing() -> None:
    """If only root has a limit of a group, deeper queues do not increase the cost of booking its usage."""
    more = []
    for levels in (1, 6):
        (_, alone), (_, member) = cost(levels=levels), cost(levels=levels, groups=("dev",))
        more.append(member - alone)
    assert more[0] == more[1] > 0


def test_a_resource_type_costs_an_ask_and_an_allocation_little() -> None:
    """Each further resource type of an ask costs a fixed number of lines, whatever the cluster."""
    (few_asked, few_placed), (asked, placed) = cost(types=2), cost(types=16)
    assert asked - few_asked <= 14 * PER_ASK
    assert placed - few_placed <= 14 * PER_ALLOCATION


def test_other_declared_runtimes_do_not_increase_the_cost_of_an_ask() -> None:
    """The number of distinct declared runtimes does not change the cost of an ask with backfill."""
    lines = []
    for others in (10, 500):
        scheduler = Scheduler()
        for command in (
            register(config("[{name: leaf}]", properties="{backfill: easy}")),
            nodes(node("n1", vcore=1)),
            apps(app("one", "root.leaf")),
            asks(*(ask("one", f"k{n}", vcore=1, tags={RUNTIME: f"{60 + n}"}) for n in range(others))),
        ):
            scheduler.handle(command, 1.0)
        late = asks(ask("one", "late", vcore=1, tags={RUNTIME: "59"}))
        lines.append(lines_of_core(partial(scheduler.handle, late, 1.0)))
    assert lines[1] <= lines[0]
