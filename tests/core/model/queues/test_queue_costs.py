"""The cost of a short-lived queue does not grow with the number of other queues."""

from collections.abc import Sequence

import pytest

from licorne_core.messages.commands import Command, RemoveApplication, Tick, UpdateApplications
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import AppId, RmId
from support.core.builders import RM, app, apps, ask, asks, node, nodes, register
from support.core.steps import lines_of_core

pytestmark = pytest.mark.pure

CONFIG = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: "*"}]
"""
SIZES = {
    "namespace.resourcequota": '{"resources":{"vcore":{"value":9}}}',
    "namespace.resourceguaranteed": '{"resources":{"vcore":{"value":5}}}',
}
NOW = 1.0


def of_namespaces(names: Sequence[str]) -> list[Command]:
    """An application in each namespace, with tags that create and size a queue, and with a waiting ask."""
    new = [app(name, "", tags={"namespace": name, **SIZES}) for name in names]
    return [apps(*new), asks(*(ask(name, name, vcore=8) for name in names))]


def costs(beside: int) -> list[int]:
    """Executed lines of code for the creation of a queue, the next turn, and the queue's removal."""
    scheduler = Scheduler()
    for command in (
        register(CONFIG),
        nodes(node("n1", vcore=1)),
        *of_namespaces([f"ns{number:03}" for number in range(beside)]),
        *of_namespaces(["early"]),
        Tick(),
    ):
        scheduler.handle(command, NOW)
    come, wait = of_namespaces(["late"])
    go = UpdateApplications(rm_id=RmId(RM), remove=[RemoveApplication(app_id=AppId("late"))])

    def act(command: Command, now: float = NOW) -> int:
        return lines_of_core(lambda: scheduler.handle(command, now))

    return [act(come), act(wait) + act(Tick()), act(go) + act(Tick())]


def test_a_short_lived_queue_costs_the_same_with_many_queues() -> None:
    """Neither creation and removal of a queue nor the next turn examine the queues of other namespaces."""
    few, many = costs(10), costs(300)
    for one, other in zip(few, many, strict=True):
        assert abs(other - one) < 250, (few, many)
