"""Placeholders of a gang preempt together, or not at all."""

from collections.abc import Iterable

from licorne_core.messages.effects import Effect
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released

DELAY = 1


def town(queues: str, *homes: tuple[str, int], **properties: str) -> Driver:
    """Nodes by their size, and queues whose asks preempt after a second."""
    said = {"preemption.delay": f"{DELAY}s", **properties}
    driver = Driver()
    text = ", ".join(f"{name}: '{value}'" for name, value in said.items())
    driver.do(register(config(queues, properties=f"{{{text}}}")))
    driver.do(nodes(*(node(name, memory=size) for name, size in homes)))
    return driver


def stopped(effects: Iterable[Effect]) -> list[str]:
    """Who is told to stop for the sake of others, in order of name."""
    return sorted(key for _, key, why, _ in released(effects) if why == "PREEMPTED_BY_SCHEDULER")


def gang(driver: Driver, app_id: str, queue: str, number: int, size: int = 1) -> list[Effect]:
    """An application with so many placeholders, and what is decided for them."""
    driver.do(apps(app(app_id, queue, gang={"memory": number * size})))
    return wants(driver, app_id, number, size)


def wants(driver: Driver, app_id: str, number: int, size: int = 1) -> list[Effect]:
    """So many placeholders of an application, and what is decided for them."""
    keys = [f"{app_id}-p{n}" for n in range(number)]
    effects = driver.do(
        asks(*(ask(app_id, key, policy="o", group="g", placeholder=True, memory=size) for key in keys))
    )
    return [*effects, *driver.wait(5)]


def test_real_asks_with_a_promise_are_no_placeholders() -> None:
    """Beside a real ask that waits for its victim, the placeholders of its application have theirs."""
    queues = "[{name: rich}, {name: poor, resources: {guaranteed: {memory: 3}}}]"
    driver = town(queues, *((f"n{n}", 1) for n in range(4)))
    driver.do(apps(app("rich", "root.rich"), app("mixed", "root.poor", gang={"memory": 2})))
    driver.do(asks(*(ask("rich", f"r{n}", policy="s", memory=1) for n in range(4))))
    assert len(stopped([*driver.do(asks(ask("mixed", "real", policy="o", memory=1))), *driver.wait(5)])) == 1
    assert len(stopped(wants(driver, "mixed", 2))) == 2
