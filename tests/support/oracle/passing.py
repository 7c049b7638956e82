"""Time and answers: what happens to one partition without a decision (spec §§ 5.4, 8.3-8.6)."""

from licorne_core.commands import FailMode
from support.oracle.deciding import Decision
from support.oracle.feed import newly_waiting
from support.oracle.partition import PartitionOracle
from support.oracle.predicates import (
    NO_ANSWER,
    RETRY_SECONDS,
    PredicateCheck,
    forget_silence,
    put_back,
    remember,
)
from support.oracle.turns import INSPECT, INSPECTION_SECONDS, confirm, look_at

RESERVATION_SECONDS = 3600.0


def pass_time(
    partition: PartitionOracle, now: float, *, on_hold: bool
) -> tuple[list[Decision], list[tuple[str, str]]]:
    """Do what is due, in the order of the deadlines.

    Returns the allocations that the RM is told of, and the asks that wait for a larger cluster.
    """
    told: list[Decision] = []
    waiting: list[tuple[str, str]] = []
    while (due := partition.timers.take(now)) is not None:
        what, name = due
        if what == "complete":
            partition.remove_app(name, now)
        elif what == "clean":
            partition.clean()
        elif what == "answer":
            told += _give_up(partition, int(name), now)
        elif what == "inspect" and on_hold:
            partition.timers.set(INSPECT, now + INSPECTION_SECONDS)
        elif what == "inspect":
            waiting += newly_waiting(look_at(partition, now))
        else:
            forget_silence(partition.checks.silent.pop(int(name)))
    for _, ask in partition.reserved_asks():
        if ask.reservation and ask.reservation.since + RESERVATION_SECONDS <= now:
            ask.reservation = None
    for app in partition.apps.values():
        if app.backs_off_until <= now:
            app.backs_off_until = 0.0
        if app.starts_until is not None and app.starts_until <= now:
            app.starts_until = None
    return told, waiting


def take_answer(
    partition: PartitionOracle, number: int, refused: dict[str, str], now: float
) -> list[Decision]:
    """The RM answers; the allocations that it is told of. Nobody waits for some answers."""
    check = partition.checks.close(number)
    if check is None:
        return []
    partition.timers.cancel(("answer", str(number)))
    partition.unheard = False
    remember(check, refused)
    return _settle(partition, check, refused, now)


def _give_up(partition: PartitionOracle, number: int, now: float) -> list[Decision]:
    """The RM is silent, and that counts as it said it should."""
    check = partition.checks.close(number)
    assert check is not None, f"check {number} has a deadline"
    assert partition.policy is not None, "a check has a deadline by a policy"
    if partition.policy.fail_mode is FailMode.OPEN:
        return _settle(partition, check, {}, now)
    refused = {node.node_id: NO_ANSWER for node in check.nodes}
    remember(check, refused)
    told = _settle(partition, check, refused, now)
    partition.unheard = True
    partition.checks.silent[number] = check
    partition.timers.set(("retry", str(number)), now + RETRY_SECONDS)
    return told


def _settle(
    partition: PartitionOracle, check: PredicateCheck, refused: dict[str, str], now: float
) -> list[Decision]:
    """Make or put back what waited; where the node has changed, the RM has to be asked again."""
    told: list[Decision] = []
    for app_id, key in list(check.assumed):
        app = partition.apps[app_id]
        allocation = app.allocations[key]
        node = partition.nodes[allocation.node_id]
        accepted = node.node_id not in refused
        if not check.counts(node, partition.assumed_on(node), accepted=accepted):
            again = partition.checks.next(app_id, allocation.ask, partition.nodes, allocate=True)
            assert list(again.nodes) == [node], f"core asks again about {again.nodes}, not {node}"
            again.assumed.append((app_id, key))
        elif accepted:
            allocation.assumed = False
            confirm(partition, app, node, now)
            told.append(Decision(app_id, key, node.node_id))
        else:
            put_back(app, key)
    for _, ask in partition.reserved_asks():
        if ask.reservation in check.reservations and ask.reservation.node_id in refused:
            ask.reservation = None
    return told
