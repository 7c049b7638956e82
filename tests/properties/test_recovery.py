"""R2, R3: a replay restores the books of a core, whatever the quotas."""

from typing import Any

import pytest
import yaml

from licorne_core.messages.effects import AllocationsRejected
from support.core.driver import Driver
from support.core.replicas import digest, replay
from support.worlds import World
from support.worlds.playing import REST

TIGHT = {"resources": {"max": {"vcore": "1m", "memory": "1", "gpu": "1"}}}


def lived(world: World) -> Driver:
    """A core after all events of the world."""
    driver = Driver()
    for now, command in world.steps:
        driver.now = now
        if command is REST:
            driver.run()
        else:
            driver.send(command)
    return driver


@pytest.mark.row(161)
@pytest.mark.worlds(first=5_000_000, one_in=10)
def test_a_replay_restores_the_books(part: range) -> None:
    """After any history, an RM that registers again and replays its state has its former usage."""
    for seed in part:
        driver = lived(World(seed, hides=False, budgets=False))
        for rm in driver.views.rms():
            before = {p: digest(driver.scheduler.partitions[p]) for p in rm.partitions}
            replay(driver, rm.rm_id, rm.config)
            for name, books in before.items():
                assert digest(driver.scheduler.partitions[name]) == books, f"world {seed}: {name}"


@pytest.mark.row(161)
@pytest.mark.worlds(first=5_500_000, one_in=20)
def test_allocations_are_recovered_above_any_quota(part: range) -> None:
    """A core counts all allocations that an RM replays, even above maxima and limits."""
    for seed in part:
        driver = lived(World(seed, hides=False, budgets=False))
        for rm in driver.views.rms():
            before = {p: digest(driver.scheduler.partitions[p]) for p in rm.partitions}
            effects = replay(driver, rm.rm_id, tightened(rm.config))
            refused = [effect for effect in effects if isinstance(effect, AllocationsRejected)]
            assert not refused, f"world {seed}: {refused}"
            for name, books in before.items():
                assert digest(driver.scheduler.partitions[name]) == books, f"world {seed}: {name}"


def tightened(config: str) -> str:
    """The same configuration with maxima that allow almost nothing."""
    written = yaml.safe_load(config)
    for partition in written["partitions"]:
        limit = {"limit": "tight", "users": ["*"], "maxresources": {"memory": "1"}}
        partition["limits"] = [{**limit, "maxapplications": 1}]
        (root,) = partition["queues"]
        root.pop("maxapplications", None)
        root["queues"] = [_tightened(queue) for queue in root["queues"]]
    return yaml.safe_dump(written)


def _tightened(queue: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: queue[key] for key in ("name", "parent", "submitacl") if key in queue}
    below = [_tightened(child) for child in queue.get("queues", [])]
    return {**kept, **TIGHT, "maxapplications": 1, "queues": below}
