"""C1, metamorphic: after a reload a core decides like a core that was started with that configuration.

State from before the reload (waiting lines, ranks, indexes) must make no difference. A new core receives the
same nodes, applications, allocations and asks, with their times. State that a restart loses by design is left
out: reservations, new applications of state-aware leaves, back-offs, and groups chosen under former limits.
"""

from random import Random
from typing import Any

import pytest

from licorne_core.messages.commands import Tick
from licorne_core.messages.effects import ConfigurationUpdated
from licorne_core.values.asks import Ask
from support.core.builders import app, apps, ask, asks, node, nodes, register, reload
from support.core.contents import allocations
from support.core.driver import Driver, placed
from support.seeds import lively
from support.worlds.configs import TYPES, ConfigMaker, text_of

USERS = [("ann", ["dev"]), ("bob", ["dev", "ops"]), ("cid", ["ops"]), ("dee", [])]
KEPT = ("application.sort", "priority.")
"""Prefixes of the drawn properties; other properties have state that a restart loses."""


def drawn(maker: ConfigMaker) -> str:
    """A random configuration, without settings whose state a restart loses.

    Root's maximum of applications is left out as well, because a reload does not change it.
    """
    config = maker.partition("default")
    waiting: list[dict[str, Any]] = list(config["queues"])
    waiting[0].pop("maxapplications", None)
    while waiting:
        queue = waiting.pop()
        waiting += queue.get("queues", [])
        for holder in (queue, queue.get("childtemplate", {})):
            properties = holder.get("properties", {})
            holder["properties"] = {
                key: value
                for key, value in properties.items()
                if key.startswith(KEPT) and value != "stateaware"
            }
    return text_of([config])


def busy(rng: Random, maker: ConfigMaker) -> Driver:
    """A busy core with many allocations and pending asks."""
    driver = Driver(reservations=False)
    driver.do(register(drawn(maker)))
    sizes = [{name: rng.choice([2, 4, 8]) * n for name, n in TYPES.items()} for _ in range(4)]
    driver.do(nodes(*(node(f"n{i}", size=size) for i, size in enumerate(sizes))))
    leaves = maker.leaves()
    for number in range(rng.randint(2, 8)):
        driver.now += rng.choice([0.0, 1.0])
        user, groups = rng.choice(USERS)
        driver.send(apps(app(f"app{number}", rng.choice(leaves), user=user, groups=groups)))
    for number in range(rng.randint(5, 40)):
        driver.now += rng.choice([0.0, 0.0, 1.0])
        size = {n: TYPES[n] // rng.choice([1, 2, 4]) or 1 for n in TYPES if rng.random() < 0.6}
        app_id = f"app{rng.randint(0, 7)}"
        wanted = ask(app_id, f"k{number}", priority=rng.randint(-1, 2), size=size or {"vcore": 250})
        driver.send(asks(wanted))
        if rng.random() < 0.3:
            driver.send(Tick(decisions=rng.randint(1, 5)))
    return driver


def follow(driver: Driver, maker: ConfigMaker) -> str:
    """Reload with other settings, which must be accepted; return the configuration."""
    maker.resettle()
    config = drawn(maker)
    assert isinstance(driver.send(reload(config))[0], ConfigurationUpdated)
    return config


def started_anew(driver: Driver, config: str) -> Driver:
    """A new core with this configuration and the same nodes, applications, allocations and asks."""
    old = driver.partition
    new = Driver(reservations=False)
    new.send(register(config))
    new.send(nodes(*(node(n.node_id, size=n.capacity) for n in old.nodes.by_id.values())))
    for known in old.applications.values():
        new.now = known.state_log[0][0]
        who = known.user
        new.send(apps(app(known.app_id, known.queue_path, user=who.user, groups=who.groups)))
    new.now = driver.now
    for known in old.applications.values():
        placed = [told(a.ask, a.request_time, a.node_id) for a in allocations(known).values()]
        waiting = sorted(known.pending(), key=lambda request: request.arrival)
        new.send(asks(*placed, *(told(one.ask, one.create_time, None) for one in waiting)))
    return new


def groups(driver: Driver) -> dict[str, str]:
    """The group, by application, whose limits count for the application."""
    apps_of = driver.partition.applications
    return {app_id: known.group for app_id, known in apps_of.items()}


def told(known: Ask, created: float, on_node: str | None) -> Ask:
    """An ask or an allocation in the form of a replay."""
    return ask(
        known.app_id,
        known.key,
        priority=known.priority,
        created=created,
        on_node=on_node,
        size=known.ask_class.resources,
    )


@pytest.mark.worlds(first=7_000_000, one_in=10)
def test_a_reloaded_core_decides_like_a_new_one(part: range) -> None:
    """After any earlier configuration the same asks are placed on the same nodes in the same order."""
    compared = 0
    for seed in part:
        rng = Random(seed)
        maker = ConfigMaker(rng, creates=rng.random() < 0.4, hides=False, preempts=False)
        driver = busy(rng, maker)
        for _ in range(rng.randint(0, 2)):
            follow(driver, maker)
        other = started_anew(driver, follow(driver, maker))
        if groups(driver) != groups(other):
            # An application keeps the group for which it first counted (spec § 10.3).
            continue
        decided, expected = placed(driver.run()), placed(other.run())
        assert decided == expected, f"world {seed}"
        compared += len(decided)
    assert compared >= lively(len(part)), "hardly anything was decided"
