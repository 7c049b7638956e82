"""The order of asks, in the words of the specification: §§ 4.8-4.11, 5.2, 7.5."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, fsum, inf
from typing import Any, NamedTuple, Protocol

from support.oracle.books import Amounts, AppRecord, AskClass, AskRecord, Kind, NodeRecord
from support.oracle.budgets import Bound
from support.oracle.elastic import grows
from support.oracle.memory import Memory
from support.oracle.queues import QueueRecord, lineage
from support.oracle.terms import NodeOrder, PreemptionRecord
from support.oracle.usage import Tracker, Usage

SCHEDULABLE = ("Accepted", "Running")


class MustAsk(Protocol):
    """True if the RM has to agree before the ask uses the node, or has it reserved."""

    def __call__(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> bool:
        """Whether the RM must be asked first."""
        ...


class ClaimRecord(NamedTuple):
    """An ask to which reservations yield, with the kinds and applications of equal asks."""

    ask: AskRecord
    kinds: list[tuple[AppRecord, Kind]]


class Look(NamedTuple):
    """All inputs of a decision.

    `as_fifo`: state-aware leaves act like fifo ones. `reserving`: nodes may be reserved. `full`: the maximum
    of assumed asks is reached. `is_silent_about`: the RM did not answer for a class, so nodes are skipped.
    `must_ask`: the RM has to agree to a node first. `preemption` is the partition's state of preemption.
    `review_due` is the time since when a review of reservations is due. `claims` are those to which
    reservations yield. `memory` is the past usage. `budgets_of` has the budgets of an application, for one of
    its asks or for any, `left_of_budgets` what other partitions leave of each. `runs` are the latest runtimes
    by leaf and size, `last_runs` those of a user's last applications, and `pauses` those of asks without a
    start. `places` are those of lost gang members. `is_asked`: the RM is being asked about nodes for a whole
    gang, or a start, of an application. `asked_for_starts` has, for each application whose first start waits
    for an answer, if its leaf is closed before that start.
    """

    queues: dict[str, QueueRecord]
    apps: dict[str, AppRecord]
    nodes: dict[str, NodeRecord]
    node_order: NodeOrder
    as_fifo: bool
    usage: Usage
    now: float
    reserving: bool
    full: bool
    is_silent_about: Callable[[AskClass], bool]
    must_ask: MustAsk
    preemption: PreemptionRecord
    review_due: float | None
    claims: list[ClaimRecord]
    memory: Memory
    budgets_of: Callable[[AppRecord, AskRecord | None], list[Bound]]
    left_of_budgets: Callable[[AppRecord], dict[Tracker, Amounts]]
    runs: dict[object, list[float]]
    last_runs: dict[str, dict[str, float]]
    pauses: Any
    places: list[Any]
    is_asked: Callable[[AppRecord], bool]
    asked_for_starts: list[bool]


Runtime = Callable[[AppRecord], float]
"""The expected runtime of an application, which orders those that overtake planned starts."""


def apps_in_order(
    look: Look, path: str = "root", *, newcomers: bool = False, runtime: Runtime | None = None
) -> Iterator[AppRecord]:
    """Applications with pending asks below a queue, in the order of tries.

    With `newcomers`, applications that a state-aware or strict leaf does not admit yet are included. With
    `runtime`, applications of fifo leaves are ordered by it.
    """
    queue = look.queues[path]
    if queue.is_leaf:
        yield from apps_of_leaf(look, queue, newcomers=newcomers, runtime=runtime)
        return
    children = [q.path for q in look.queues.values() if q.parent == path]
    waiting = [child for child in children if any(look.usage.pending[child].values())]
    for child in sorted(waiting, key=lambda child: queue_key(look, child, queue.priority_first)):
        yield from apps_in_order(look, child, newcomers=newcomers, runtime=runtime)


# Queues (spec §§ 4.8-4.11)


def queue_key(look: Look, path: str, priority_first: bool) -> tuple[Any, ...]:
    """The sort key: priority and share, then the larger pending amounts, then the path."""
    priority = look.usage.waiting_priority[path]
    assert priority is not None, f"{path} is sorted though nothing waits in it"
    share = shares_of(look, path)
    pending = look.usage.pending[path]
    tie = tuple(-pending.get(name, 0) for name in sorted(look.usage.pending["root"]))
    if look.queues[look.queues[path].parent].half_life:
        fair = _fair(look, path)
        return (-priority, fair, share, tie, path) if priority_first else (fair, share, -priority, tie, path)
    if priority_first:
        return (-priority, share, tie, path)
    return (share, -priority, tie, path)


def _fair(look: Look, path: str) -> float:
    """The decayed usage, divided by share and weight; infinite for weight 0."""
    weight = look.queues[path].weight
    return look.memory.share(path, "", _due(look, path), look.now) / weight if weight else inf


def _due(look: Look, path: str) -> Amounts:
    return {**fair_max(look, path), **look.queues[path].guaranteed}


def shares_of(look: Look, path: str) -> list[float]:
    """The queue's usage divided by its share, for all used types, the largest first."""
    return _parts(look.usage.allocated[path], _due(look, path))


def _parts(amounts: Amounts, due: Amounts) -> list[float]:
    parts = [
        used / due[name] if due[name] > 0 else 1.0 for name, used in amounts.items() if used and name in due
    ]
    return sorted(parts, reverse=True)


def fair_max(look: Look, path: str) -> Amounts:
    """The amounts of the cluster, overridden by the maximum of each queue from root down."""
    result = {name: value for name, value in look.usage.cluster.items() if value}
    for ancestor in reversed(lineage(path)):
        result.update(look.queues[ancestor].max)
    return result


# Applications (spec § 5.2)


def apps_of_leaf(
    look: Look, leaf: QueueRecord, *, newcomers: bool, runtime: Runtime | None = None
) -> list[AppRecord]:
    """The leaf's applications with pending asks, sorted by its policy."""
    here = [app for app in look.apps.values() if app.queue == leaf.path]
    if leaf.app_order == "stateaware" and not look.as_fifo and not newcomers:
        here = _without_newcomers(here)
    waiting = [app for app in here if app.asks and app.state in SCHEDULABLE and not app.held]
    if runtime is not None and leaf.app_order == "fifo":
        return sorted(waiting, key=lambda app: _passing_key(look, app, leaf, runtime(app)))
    ordered = sorted(waiting, key=lambda app: app_key(look, app, leaf))
    if leaf.app_order == "strict" and not newcomers:
        return ordered[:1]
    if leaf.app_order != "fair":
        return ordered
    users: dict[tuple[bool, str], list[AppRecord]] = {}
    for app in ordered:
        users.setdefault((grows(app), app.user), []).append(app)
    in_order = sorted(users.values(), key=lambda apps: user_key(look, apps[0], leaf))
    return [app for apps in in_order for app in apps]


def user_key(look: Look, first: AppRecord, leaf: QueueRecord) -> tuple[Any, ...]:
    """The sort key of a user of a fair leaf by its first application: its priority, then the user's usage."""
    priority = -leaf.priority_of(first, look.now) if leaf.priority_first else 0
    due = _due(look, leaf.path)
    used = look.memory.share(leaf.path, first.user, due, look.now) if leaf.half_life else 0.0
    has = _parts(look.usage.tracked.get(("user", first.user, leaf.path), {}), due)
    return (grows(first), priority, used, has, app_key(look, first, leaf))


def _without_newcomers(apps: list[AppRecord]) -> list[AppRecord]:
    """The running applications, and the oldest accepted one unless another application is starting."""
    accepted = [app for app in apps if app.state == "Accepted" and not app.held]
    if any(app.starts_until is not None for app in apps):
        let_in = []
    else:
        let_in = sorted(accepted, key=lambda app: (app.submitted, app.app_id))[:1]
    return [app for app in apps if app.state != "Accepted" or app in let_in]


def app_key(look: Look, app: AppRecord, leaf: QueueRecord) -> tuple[Any, ...]:
    """The sort key: whether it only grows, then priority, usage (fair only), submission time, id."""
    return (grows(app), *_key_of(look, app, leaf))


def _passing_key(look: Look, app: AppRecord, leaf: QueueRecord, runtime: float) -> tuple[Any, ...]:
    """The sort key: priority if it precedes, the expected runtime, then the usual key."""
    usual = _key_of(look, app, leaf)
    return (grows(app), usual[0] if leaf.priority_first else 0, runtime, *usual)


def _key_of(look: Look, app: AppRecord, leaf: QueueRecord) -> tuple[Any, ...]:
    priority = -leaf.priority_of(app, look.now)
    if leaf.app_order != "fair":
        if leaf.priority_first:
            return (priority, app.submitted, app.app_id)
        return (app.submitted, priority, app.app_id)
    usage = _fair_usage(look, app, leaf)
    if leaf.priority_first:
        return (priority, usage, app.submitted, app.app_id)
    return (usage, priority, app.submitted, app.app_id)


def _fair_usage(look: Look, app: AppRecord, leaf: QueueRecord) -> list[float]:
    """The shares of the leaf's guarantee, or without one the amounts themselves, the largest first."""
    shares = []
    for name, used in look.usage.app_allocated[app.app_id].items():
        due = leaf.guaranteed.get(name, 0)
        if used:
            shares.append(used / due if due > 0 else float(used))
    return sorted(shares, reverse=True)


# Nodes (spec § 7.5)


def node_key(look: Look, node: NodeRecord) -> tuple[float | list[float], float, str]:
    """The sort key: the fullness of the node's groups, if any, that of the node, then its id.

    Fullness is negative where nodes are packed.
    """
    used = _fullness(look, node)
    kind, _, attribute, groupings, _ = look.node_order
    if kind == "binpacking":
        return ([-_steps(look, node, names) for names in groupings], -used, node.node_id)
    if kind == "spread":
        group = [
            _fullness(look, other)
            for other in look.nodes.values()
            if other.attributes.get(attribute, "") == node.attributes.get(attribute, "")
        ]
        return (fsum(group) / len(group), used, node.node_id)
    return (0.0, used, node.node_id)


def _steps(look: Look, node: NodeRecord, names: tuple[str, ...]) -> float:
    """The sixteenths of the scarcest type that are used in the node's group, rounded up."""
    if not node.attributes.get(names[-1]):
        return inf
    group = [
        other
        for other in look.nodes.values()
        if all(other.attributes.get(name, "") == node.attributes.get(name, "") for name in names)
    ]
    steps = [0]
    for what in look.node_order.types:
        size = sum(other.capacity.get(what, 0) for other in group)
        left = sum(look.usage.available[other.node_id].get(what, 0) for other in group)
        steps.append(ceil(Fraction(16 * (size - left), size)) if size > 0 else 16)
    return max(steps)


def _fullness(look: Look, node: NodeRecord) -> float:
    """The weighted fullness of the node."""
    available = look.usage.available[node.node_id]
    taken = weight_sum = 0.0
    for name, weight in look.node_order.weights:
        capacity = node.capacity.get(name, 0)
        if weight > 0 and capacity > 0:
            taken += weight * (1 - available.get(name, 0) / capacity)
            weight_sum += weight
    return taken / weight_sum if weight_sum else 0.0


def fit_key(look: Look, node: NodeRecord, size: Amounts) -> tuple[float, float | list[float], float, str]:
    """The sort key: the missing amount on the node (spec § 8.5), then the node order."""
    available = look.usage.available[node.node_id]
    score = 0.0
    for name, wanted in sorted(size.items()):
        left = available.get(name, 0)
        if left < wanted:
            score += 1.0 if left <= 0 else (wanted - left) / wanted
    return (score, *node_key(look, node))
