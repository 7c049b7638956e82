"""The common state of core and oracle after each command, in a comparable form."""

from collections.abc import Generator
from typing import Any

from licorne_core.extensions.back_off.extension import BackOffs
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.shadow_start import ShadowStart
from licorne_core.extensions.budgets.shared import budgets_of
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import VICTIMS, RequestState
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import QueueState
from licorne_core.model.queues.users import in_order
from licorne_core.partitions.partition import Partition
from licorne_core.standard.preemption.decisions import Proposal
from licorne_core.standard.preemption.requests import preemption_request_of
from licorne_core.standard.reservations.extension import review_of
from licorne_core.values.ids import AppId
from licorne_core.views.explain import applications_ahead
from support.oracle import PartitionOracle
from support.oracle.backfill import holders, is_open_at, runtime_for_order
from support.oracle.books import AppRecord, Kind
from support.oracle.deciding import Search
from support.oracle.gangs import task_groups
from support.oracle.held import exceeds
from support.oracle.order import Look, apps_in_order
from support.oracle.turns import look_at
from support.oracle.usage import Usage

PAIRED = (RequestState.MATCHED, RequestState.LINKED)

Keys = dict[tuple[str, str], str]
"""The nodes by application and key."""


def books_of_core(partition: Partition, now: float) -> dict[str, Any]:
    """The state of the core."""
    return {
        "apps": {app.app_id: _app_of_core(partition, app, now) for app in partition.applications.values()},
        "unseen": unseen(partition, now),
        "nodes": {
            node.node_id: (node.schedulable, _without_zeros(node.available))
            for node in partition.nodes.by_id.values()
        },
        "queues": {
            queue.path: (
                queue.state is QueueState.DRAINING,
                _without_zeros(queue.allocated),
                _without_zeros(queue.pending),
                queue.running_applications + len(queue.allocating),
            )
            for queue in partition.tree.walk()
        },
        "trackers": {
            (kind, tracker.name, tracker.path): (
                _without_zeros(tracker.usage),
                set(tracker.applications),
            )
            for kind in ("user", "group")
            for trackers in partition.limits.of_kind(kind).values()
            for tracker in trackers.values()
            if tracker.applications
        },
        "budgets": {
            name: _without_zeros(account.parts[partition.name].allocated)
            for name, account in budgets_of(partition.rm.core).book.accounts.items()
            if partition.name in account.parts and account.parts[partition.name].allocated
        },
    }


def order_of_core(partition: Partition) -> tuple[list[str], dict[str, int]]:
    """The applications in the order of tries, and the number of applications before each in its leaf."""
    apps = [app for app in in_order(partition.tree.root.ranking) if app is not None and app.pending_count]
    return [app.app_id for app in apps], {app.app_id: _ahead(applications_ahead(app)) for app in apps}


def _ahead(steps: Generator[None, None, int]) -> int:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def order_of_oracle(look: Look) -> tuple[list[str], dict[str, int]]:
    """The same order and numbers by the oracle."""
    runtime = runtime_for_order(look)
    tried = [app.app_id for app in apps_in_order(look, runtime=runtime)]
    leaves: dict[str, list[str]] = {}
    for app in apps_in_order(look, newcomers=True, runtime=runtime):
        leaves.setdefault(app.queue, []).append(app.app_id)
    return tried, {app_id: leaves[look.apps[app_id].queue].index(app_id) for app_id in tried}


def end_of_back_off(partition: Partition, app: Application) -> float:
    """The end of the application's back-off, in unix seconds; 0.0 for none."""
    extension = partition.check_context.extensions.get("back_off")
    return extension.ends_at(app) if isinstance(extension, BackOffs) else 0.0


def _app_of_core(partition: Partition, app: Application, now: float) -> tuple[Any, ...]:
    gang = getattr(app, "gang", None)
    groups = gang.groups if gang is not None else {}
    return (
        app.queue_path,
        app.state.value,
        # The core drops an end in the past when it reads it, or at its deadline.
        ends if (ends := end_of_back_off(partition, app)) > now else 0.0,
        {request.key for request in app.pending()},
        {
            request.key: (
                request.state.value,
                allocation.node_id,
                allocation.request_time,
                allocation.placeholder_used,
                None if (passed := allocation.passed) is None else (passed.app_id, passed.key, passed.start),
            )
            for request in app.requests.values()
            for allocation in [request.allocation]
            if allocation is not None and request.state not in PAIRED
        },
        {
            request.key: (
                request.state.value,
                request.allocation.node_id if request.allocation is not None else None,
            )
            for request in app.requests.values()
            if request.state in PAIRED
        },
        {name: (group.count, group.replaced, group.timed_out, group.open) for name, group in groups.items()},
        _without_zeros(app.allocated),
        {
            request.key: (request.triggered, dict(request.promise.items) if request.promise else {})
            for request in app.pending()
            if request.triggered
        },
        {group: end for group, end in pauses(app).items() if end > now},
        {key: request.setback for key, request in app.backing_off.items()},
    )


def pauses(app: Application) -> dict[Kind, float]:
    """The ends of pauses by group, after failed searches for victims."""
    wanted = {kind_of(group): preemption_request_of(group) for group in app.groups.values()}
    return {
        kind: wants.paused_until if wants.waits_for is None else wants.waits_until
        for kind, wants in wanted.items()
        if wants is not None and (wants.paused_until > 0 or wants.waits_for is not None)
    }


def paused_by(partition: Partition, search: Search) -> float | None:
    """The end of the pause, or wait, after a search in vain that was for this priority too; None without."""
    for group in partition.applications[AppId(search.app_id)].groups.values():
        wants = preemption_request_of(group)
        if wants is not None and kind_of(group) == search.kind and wants.searched_priority >= search.priority:
            return wants.paused_until if wants.waits_for is None else wants.waits_until
    return None


def unseen(partition: Partition, now: float) -> tuple[Keys, Keys, Keys]:
    """State that no effect shows: reserved nodes, assumed asks, the states of pairs, reviews."""
    apps = partition.applications.values()
    reserved: Keys = {
        (app.app_id, key): request.reservation.node_id or ""
        for app in apps
        for key, request in app.reserved.items()
        if request.reservation is not None
    }
    requests = [(app, request) for app in apps for request in app.requests.values()]
    assumed: Keys = {
        (app.app_id, request.key): request.allocation.node_id
        for app, request in requests
        if request.state is RequestState.ASSUMED and request.allocation is not None
    }
    gangs: Keys = {
        (app.app_id, request.key): request.state.value
        for app, request in requests
        if request.state in (*PAIRED, RequestState.RELEASING, *VICTIMS)
    }
    asked = _questions(partition)
    shadows: Keys = {
        (one.app.app_id, f"start of {one.request.key}"): str(
            (one.start, one.expected_end, _is_invalid(partition, one, now), *map(_id, one.places))
        )
        for one in starts_of(partition).shadows
    }
    return (
        reserved,
        assumed,
        {**gangs, **asked, **shadows, **_review(due=bool(review_of(partition).due))},
    )


def _id(node: Node) -> str:
    return node.node_id


def _questions(partition: Partition) -> Keys:
    """The asks for which the RM is asked about victims."""
    calls = [partition.calls.find(number) for number in partition.calls.numbers]
    askers = [None if call is None else call.asker for call in calls]
    proposals = [one for one in askers if isinstance(one, Proposal)]
    return {(one.app.app_id, f"victims for {one.request.key}"): "asked" for one in proposals}


def books_of_oracle(partition: PartitionOracle, now: float) -> dict[str, Any]:
    """The state of the oracle."""
    usage = Usage(partition.queues, partition.apps, partition.nodes)
    return {
        "apps": {app.app_id: _app_of_oracle(app, usage, now) for app in partition.apps.values()},
        "unseen": unseen_by_oracle(partition, now),
        "nodes": {
            node.node_id: (node.schedulable, _without_zeros(usage.available[node.node_id]))
            for node in partition.nodes.values()
        },
        "queues": {
            path: (
                queue.draining,
                _without_zeros(usage.allocated[path]),
                _without_zeros(usage.pending[path]),
                usage.running[path],
            )
            for path, queue in partition.queues.items()
        },
        "trackers": {
            tracker: (_without_zeros(usage.tracked[tracker]), apps)
            for tracker, apps in usage.tracked_apps.items()
        },
        "budgets": {
            name: used
            for name in partition.budgets.budgets
            if (used := _without_zeros(partition.budgets.used_in(partition, name)))
        },
    }


def _app_of_oracle(app: AppRecord, usage: Usage, now: float) -> tuple[Any, ...]:
    app.forget_wishes()
    return (
        app.queue,
        app.state,
        app.backs_off_until if app.backs_off_until > now else 0.0,
        set(app.asks),
        {
            key: (one.state, one.node_id, one.requested, one.took, one.passed)
            for key, one in app.allocations.items()
        },
        {key: (pair.state, pair.node_id) for key, pair in app.pairs.items()},
        {name: (*counts, counts.open) for name, counts in task_groups(app).items()},
        _without_zeros(usage.app_allocated[app.app_id]),
        {
            key: (True, ask.reservation.promised if ask.reservation is not None else {})
            for key, ask in app.asks.items()
            if ask.triggered
        },
        {
            kind: end
            for kind, wish in app.wishes.items()
            for end in [wish.waits_until if wish.waits_for else wish.paused_until]
            if end > now
        },
        {
            key: (ask.failures, ask.rests_until)
            for key, ask in app.asks.items()
            if ask.rests_until is not None
        },
    )


def unseen_by_oracle(partition: PartitionOracle, now: float) -> tuple[Keys, Keys, Keys]:
    """State of the oracle that no effect shows."""
    look, apps = look_at(partition, now), partition.apps.values()
    reserved: Keys = {
        (app.app_id, ask.key): ask.reservation.node_id or ""
        for app, ask in partition.reserved_asks()
        if ask.reservation
    }
    assumed: Keys = {
        (app.app_id, key): app.allocations[key].node_id for app in apps for key in app.assumed_keys()
    }
    pairs: Keys = {(app.app_id, key): pair.state for app in apps for key, pair in app.pairs.items()}
    stopping: Keys = {
        (app.app_id, key): one.state
        for app in apps
        for key, one in app.allocations.items()
        if one.state in (RequestState.RELEASING.value, *VICTIMS)
    }
    open_checks = partition.checks.open.values()
    checks = [*partition.judging.open.values(), *(c.victims for c in open_checks if c.victims)]
    asked: Keys = {(c.app.app_id, f"victims for {c.ask.key}"): "asked" for c in checks}
    review = _review(due=partition.review_due is not None)
    starts: Keys = {
        (app.app_id, f"start of {ask.key}"): str(
            (
                one.start,
                one.end,
                one.stale or exceeds(look, app, ask) or (one.start > now and not is_open_at(look, app, one)),
                *([one.node_id] if one.node_id else []),
            )
        )
        for app, ask, one in holders(partition.apps)
    }
    return reserved, assumed, {**pairs, **stopping, **asked, **starts, **review}


def _is_invalid(partition: Partition, shadow: ShadowStart, now: float) -> bool:
    """True if the start is to be planned again."""
    is_open, _ = starts_of(partition).shadows.openings.at(shadow.app.leaf, shadow.start)
    return shadow.is_stale or shadow.exceeds or (shadow.start > now and not is_open)


def _review(*, due: bool) -> Keys:
    """The time of the next review, which must be equal even if a review changes nothing."""
    return {("", "review"): "due"} if due else {}


def kind_of(group: AskGroup) -> Kind:
    """A group of the core in the form of the oracle."""
    ask_class = group.ask_class
    _, task_group, placeholder = group.key
    own = (ask_class.items, ask_class.required_node, ask_class.predicate, ask_class.runtime)
    return (own, task_group, placeholder)


def differences(ours: Any, theirs: Any) -> str:
    """The differences of two values as text; of mappings only the entries that differ."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return f"core {ours}, oracle {theirs}"
    keys = [*ours, *(key for key in theirs if key not in ours)]
    return "; ".join(
        f"{key}: core {ours.get(key)}, oracle {theirs.get(key)}"
        for key in keys
        if ours.get(key) != theirs.get(key)
    )


def _without_zeros(size: Any) -> dict[str, int]:
    return {name: value for name, value in size.items() if value}
