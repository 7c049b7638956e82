"""The placeholders of a gang preempt together or not at all."""

from collections.abc import Iterable

from licorne_core.messages.commands import NodeAction
from licorne_core.messages.effects import Effect
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released

DELAY = 1


def town(queues: str, *homes: tuple[str, int], **properties: str) -> Driver:
    """Nodes of these sizes in bytes, and queues whose asks preempt after a second."""
    said = {"preemption.delay": f"{DELAY}s", **properties}
    driver = Driver()
    text = ", ".join(f"{name}: '{value}'" for name, value in said.items())
    driver.do(register(config(queues, properties=f"{{{text}}}")))
    driver.do(nodes(*(node(name, memory=size) for name, size in homes)))
    return driver


def stopped(effects: Iterable[Effect]) -> list[str]:
    """The keys of the victims of preemption, sorted."""
    return sorted(key for _, key, why, _ in released(effects) if why == "PREEMPTED_BY_SCHEDULER")


def gang(driver: Driver, app_id: str, queue: str, number: int, size: int = 1) -> list[Effect]:
    """Submit an application with this number of placeholders; return the effects of the next 5 seconds."""
    driver.do(apps(app(app_id, queue, gang={"memory": number * size})))
    return wants(driver, app_id, number, size)


def wants(driver: Driver, app_id: str, number: int, size: int = 1) -> list[Effect]:
    """Submit this number of placeholders; return the effects of the next 5 seconds."""
    keys = [f"{app_id}-p{n}" for n in range(number)]
    effects = driver.do(
        asks(*(ask(app_id, key, policy="o", group="g", placeholder=True, memory=size) for key in keys))
    )
    return [*effects, *driver.wait(5)]


def test_a_real_ask_and_placeholders_wait_for_victims_together() -> None:
    """A real ask and placeholders of its application may wait for victims at the same time."""
    queues = "[{name: rich}, {name: poor, resources: {guaranteed: {memory: 3}}}]"
    driver = town(queues, *((f"n{n}", 1) for n in range(4)))
    driver.do(apps(app("rich", "root.rich"), app("mixed", "root.poor", gang={"memory": 2})))
    driver.do(asks(*(ask("rich", f"r{n}", policy="s", memory=1) for n in range(4))))
    assert len(stopped([*driver.do(asks(ask("mixed", "real", policy="o", memory=1))), *driver.wait(5)])) == 1
    assert len(stopped(wants(driver, "mixed", 2))) == 2


def test_leaves_share_the_excess_of_their_parent() -> None:
    """If two leaves may lose two allocations in total, no victim is stopped for a gang of three."""
    due = "resources: {guaranteed: {memory: 4}}"
    queues = (
        f"[{{name: rich, {due}, queues: [{{name: a}}, {{name: b}}]}}, "
        "{name: poor, resources: {guaranteed: {memory: 3}}}]"
    )
    driver = town(queues, *((f"n{n}", 1) for n in range(6)))
    driver.do(apps(app("in-a", "root.rich.a"), app("in-b", "root.rich.b")))
    for name in ("a", "b"):
        driver.do(asks(*(ask(f"in-{name}", f"{name}{n}", memory=1, policy="s") for n in range(3))))
    assert stopped(gang(driver, "three", "root.poor", 3)) == []
    assert len(stopped(gang(driver, "two", "root.poor", 2))) == 2


def test_the_room_of_victims_on_an_overfull_node_is_counted_once() -> None:
    """Room of victims on an overfull node first covers the excess, so no victim is stopped for the gang."""
    queues = "[{name: rich}, {name: poor, resources: {guaranteed: {memory: 9}}}]"
    driver = town(queues, ("n1", 4), ("n2", 4), **{"reservation.max.nodes": "0"})
    driver.do(apps(app("rich", "root.rich")))
    driver.do(asks(*(ask("rich", f"r{n}", memory=2, policy="s", on_node=f"n{n % 2 + 1}") for n in range(4))))
    driver.do(nodes(node("n1", NodeAction.UPDATE, memory=2)))
    assert stopped(gang(driver, "four", "root.poor", 4, size=2)) == []
    assert len(stopped(gang(driver, "three", "root.poor", 3, size=2))) == 4
