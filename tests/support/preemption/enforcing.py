"""The enforcement of a maximum, played to its end without changing anything (spec § 9.6)."""

from collections.abc import Generator
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.ledger import Losses, loss_of
from licorne_core.scheduling.preemption.quota_change import Enforcement, split
from licorne_core.scheduling.preemption.victims import seconds_run
from licorne_core.values.resources import Resources, charge, refund

T = TypeVar("T")


class Stopped(NamedTuple):
    """A victim."""

    app: Application
    request: Request


class Enforced(NamedTuple):
    """The outcome; the fields mean the same as in `Enforcement`."""

    amount: Resources
    selected: int
    victims: tuple[Stopped, ...]
    claimed: Resources


def enforced(queue: Queue, losses: Losses, now: float) -> Enforced:
    """Enforce the queue's maximum; what its victims change is put back."""
    losses = deepcopy(losses)
    found = Enforcement(queue, losses, now)
    victims: list[Stopped] = []
    leaves = {app: leaf for leaf in _all(queue) for app in leaf.applications.values()}

    def stop(app: Application, request: Request) -> None:
        victims.append(Stopped(app, request))
        items, leaf = request.ask.ask_class.items, leaves[app]
        losses.add(leaf.path, loss_of(items, seconds_run(request, now)), now)
        for above in leaf.lineage:
            charge(above.preempting, items)

    for _ in found.steps(stop):
        pass
    for app, request in victims:
        for above in leaves[app].lineage:
            refund(above.preempting, request.ask.ask_class.items)
    assert found.victims == len(victims)
    return Enforced(found.amount, found.selected, tuple(victims), found.claimed)


def _all(queue: Queue) -> list[Queue]:
    return [queue, *(below for child in queue.children.values() for below in _all(child))]


def parts_of(queue: Queue, amount: Resources) -> list[tuple[Queue, Resources]]:
    """The parts of its leaves in an amount to be taken."""
    return [part for part in split(queue, amount) if part is not None]


def result_of(steps: Generator[int, None, T]) -> T:
    """The result of steps that are all done at once."""
    result: Any = None

    def play() -> Generator[int, None, None]:
        nonlocal result
        result = yield from steps

    for _ in play():
        pass
    final: T = result
    return final
