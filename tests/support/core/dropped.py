"""Queues and partitions that a configuration drops, although their usage remains in reports."""

from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")
FULL_HOUR = 1_000_800.0


def started(text: str, *, gpu: int) -> Driver:
    """A core at a full hour, with an ask for this amount of gpu placed in the queue."""
    driver = Driver()
    driver.now = FULL_HOUR
    driver.views.now = lambda: driver.now
    driver.do(register(text), nodes(node("n1", vcore=9, gpu=9)), apps(app("x", "root.a")))
    driver.do(asks(ask("x", "k1", gpu=gpu)))
    return driver


def drop_queue(driver: Driver) -> None:
    """Reload without the queue, and wait until the queue is removed."""
    driver.do(reload(config("[{name: b}]")))
    driver.wait(60.0)
    assert driver.scheduler.partitions[DEFAULT].tree.get("root.a") is None


def drop_partition(driver: Driver) -> None:
    """Reload without the partition."""
    driver.do(reload(config("[{name: b}]", name="other")))
    assert DEFAULT not in driver.scheduler.partitions
