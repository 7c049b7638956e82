"""The cost of a short-lived queue does not grow with the queues beside it."""

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
    """Applications of as many namespaces, each with a queue created and sized for it, and a waiting ask."""
    new = [app(name, "", tags={"namespace": name, **SIZES}) for name in names]
    return [apps(*new), asks(*(ask(name, name, vcore=8) for name in names))]


def costs(beside: int) -> list[int]:
    """The executed lines for creating a queue, for the next turn, and for its removal, beside others."""
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


def test_a_short_lived_queue_costs_the_same_beside_very_many() -> None:
    """Neither the creation of a queue nor the next turn examines the queues of other namespaces."""
    few, many = costs(10), costs(300)
    for one, other in zip(few, many, strict=True):
        assert abs(other - one) < 250, (few, many)
