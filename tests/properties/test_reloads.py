"""Reloads that restructure the tree: leaves become parents and back, and queues are removed and added."""

import json
from random import Random
from typing import Any

import pytest

from licorne_core.messages.effects import Registered
from licorne_core.values.ids import PartitionName
from licorne_core.values.slices import Tuning
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
    reload,
    remove_apps,
)
from support.core.driver import Driver
from support.core.reports import queues_in

DEFAULT = PartitionName("[rm1]default")
NAMES = "abc"
PATHS = [
    *(f"root.{a}" for a in NAMES),
    *(f"root.{a}.{b}" for a in NAMES for b in "abx"),
    *(f"root.{a}.{b}.{c}" for a in NAMES for b in "ab" for c in "abx"),
]
APPS = [f"app{i}" for i in range(7)]


def tree(rng: Random, depth: int = 0) -> list[dict[str, Any]]:
    """Queues of the same few names at every level, sometimes leaves and sometimes parents."""
    queues: list[dict[str, Any]] = []
    for name in NAMES:
        if rng.random() < 0.4:
            continue
        queue: dict[str, Any] = {"name": name}
        if depth < 2 and rng.random() < 0.5:
            queue |= {"queues": tree(rng, depth + 1), "parent": rng.random() < 0.5}
            if rng.random() < 0.3:
                queue["childtemplate"] = {"resources": {"max": {"memory": rng.randint(1, 4)}}}
        if rng.random() < 0.3:
            queue["resources"] = {"max": {"memory": rng.randint(4, 9)}}
        policy = rng.choice(["fair", "fifo"])
        queue["properties"] = {"application.sort.policy": policy}
        queues.append(queue)
    return queues


def drawn(rng: Random, *, creates: bool) -> str:
    """A configuration that may be invalid as an update of the previous one."""
    rules = "placementrules: [{name: provided, create: true}]" if creates else ""
    return config(json.dumps(tree(rng)), rest=rules)


def started(rng: Random, *, creates: bool) -> Driver:
    """A core with the first drawn configuration that it accepts, and a node."""
    driver = Driver(tuning=Tuning(slice_size=rng.choice([1, 500])))
    while not isinstance(driver.do(register(drawn(rng, creates=creates)))[0], Registered):
        pass
    driver.do(nodes(node("n", memory=20)))
    return driver


def turn_over(driver: Driver, rng: Random, *, creates: bool) -> None:
    """Apply one random change."""
    app_id = rng.choice(APPS)
    match rng.randint(0, 7):
        case 0:
            driver.do(reload(drawn(rng, creates=creates)))
        case 1:
            driver.do(remove_apps(app_id))
        case 2 | 3:
            driver.do(apps(app(app_id, rng.choice(PATHS))))
        case 4:
            driver.do(releases(release(app_id)))
        case 5:
            driver.wait(rng.choice([1.0, 11.0, 31.0]))
        case _:
            driver.do(asks(*(ask(app_id, f"k{i}", memory=rng.randint(1, 3)) for i in range(3))))


@pytest.mark.worlds(one_in=20)
def test_reloads_keep_the_books_and_leave_no_removed_queue(part: range) -> None:
    """Reloads keep all sums right; after the removal of all applications only configured queues are left."""
    for seed in part:
        rng = Random(seed)
        creates = seed % 2 == 0
        driver = started(rng, creates=creates)
        for _ in range(50):
            turn_over(driver, rng, creates=creates)
        driver.do(remove_apps(*APPS))
        driver.wait(11.0)
        for queue in queues_in(driver.views, DEFAULT):
            assert queue.is_managed, f"seed {seed}: {queue.path} is left"
            assert queue.state == "Active", f"seed {seed}: {queue.path} is {queue.state}"
            assert not queue.pending, f"seed {seed}: {queue.path} waits for {queue.pending}"
            assert not queue.allocated, f"seed {seed}: {queue.path} has {queue.allocated}"
