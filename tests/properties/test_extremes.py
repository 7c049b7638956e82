"""A7: amounts at the bounds of int64, and beyond, never make the books wrong."""

from dataclasses import replace
from random import Random

import pytest

from licorne_core.messages.commands import NodeAction, TerminationType
from licorne_core.values.resources import INT64_MAX
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    remove_apps,
)
from support.core.driver import Driver

AMOUNTS = (0, 1, 2**31, 2**62 - 1, 2**62, INT64_MAX - 1, INT64_MAX, INT64_MAX + 1, 2**80, -1)
QUEUES = (
    "[{name: a, properties: {application.sort.policy: fair},"
    f" resources: {{guaranteed: {{gpu: 1}}, max: {{memory: {INT64_MAX}}}}}}}, {{name: b}}]"
)


def shove(driver: Driver, rng: Random) -> None:
    """Send one random command with amounts near the bounds of int64."""
    size = {name: rng.choice(AMOUNTS) for name in ("memory", "gpu") if rng.random() < 0.8}
    app_id, key, node_id = (f"{what}{rng.randint(0, 3)}" for what in ("app", "key", "node"))
    match rng.randint(0, 7):
        case 0:
            driver.do(nodes(node(node_id, size=size)))
        case 1:
            driver.do(nodes(node(node_id, NodeAction.UPDATE, size=size)))
        case 2:
            driver.do(nodes(node(node_id, NodeAction.DECOMISSION)))
        case 3:
            driver.do(releases(release(app_id, key, why=rng.choice(list(TerminationType)))))
        case 4:
            driver.do(remove_apps(app_id), apps(app(app_id, rng.choice(["root.a", "root.b"]))))
        case 5:
            driver.do(asks(ask(app_id, key, on_node=node_id, size=size)))
        case 6:
            taken = ask("", key, on_node=node_id, size=size)
            driver.do(asks(replace(taken, tags={"foreign": "static"})))
        case _:
            driver.do(asks(ask(app_id, key, size=size)))


@pytest.mark.worlds(one_in=40)
def test_no_amount_breaks_the_books(part: range) -> None:
    """For any amounts of nodes and asks, all sums are right and within int64."""
    for seed in part:
        rng = Random(seed)
        driver = Driver()
        driver.do(register(config(QUEUES)))
        driver.do(apps(*(app(f"app{i}", "root.a") for i in range(4))))
        for _ in range(60):
            shove(driver, rng)
