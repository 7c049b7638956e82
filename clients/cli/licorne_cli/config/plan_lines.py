"""Plans as text, for `licorne config plan` and `licorne apps plan`."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from licorne.v1.admin_pb2 import (
    DefaultedValue,
    ExceededLimit,
    PlanConfigurationResponse,
    PlannedAsk,
    PlannedQueue,
    PlannedVictim,
    PlanSubmissionResponse,
)
from licorne_cli.connection.channel import DEFAULT_PARTITION
from licorne_cli.output.text import (
    counted,
    folded,
    human_resources,
    human_text,
    is_terminal,
    printable,
    shorten,
    terminal_width,
)

T = TypeVar("T", PlannedAsk, PlannedVictim)

SHOWN = 20
"""Maximum number of lines of each list; further lines are counted."""

NODES_SHOWN = 3
DEEPER = 4
"""Indentation of the continuation of a broken line."""

_DEFAULT = "default"


def print_lines(lines: Iterable[str]) -> None:
    """Print a plan. On a terminal, long lines are broken at blanks, and their continuations are indented."""
    if not is_terminal(sys.stdout):
        for line in lines:
            print(line)
        return
    width = terminal_width()
    for line in lines:
        indent = len(line) - len(line.lstrip())
        first, *more = folded(line[indent:], width - indent, width - indent - DEEPER)
        print(f"{' ' * indent}{first}")
        for piece in more:
            print(f"{' ' * (indent + DEEPER)}{piece}")


def configuration_lines(rm_id: str, plan: PlanConfigurationResponse) -> Iterator[str]:
    """The plan of a configuration, as text for people."""
    base = f"from revision {plan.base_revision}"
    if not plan.changed:
        yield f"plan for RM {printable(rm_id)} {base}: that is what runs, nothing changes"
        return
    counts = plan.counts
    placed = counted(counts.placed, "ask") + " placed"
    blocked = counted(counts.blocked, "ask") + " blocked by another check"
    yield f"plan for RM {printable(rm_id)} {base}"
    limits = counted(counts.newly_exceeded, "limit") + " newly exceeded"
    yield (
        f"{counted(counts.queues, 'queue')} changed, {placed}, {blocked}, "
        f"{counted(counts.victims, 'victim')}, {limits}"
    )
    yield horizon(complete=plan.complete, seconds=plan.horizon_seconds, holds=plan.holds)
    yield from _section("queues", counts.queues, _queues(plan.queues))
    exceeded = ([limit_line(limit)] for limit in plan.exceeded_limits)
    yield from _section("limits exceeded", counts.exceeded_limits, exceeded)
    yield from _section("victims", counts.victims, _grouped(plan.victims, _loss, victims_line))
    yield from _section("asks placed", counts.placed, _grouped(plan.placed, _place, _placed_line))
    yield from _section(
        "asks blocked by another check",
        counts.blocked,
        _grouped(plan.blocked, _stop, _blocked_line),
    )
    yield from _default_lines(plan.defaults, counts.defaults)


def submission_lines(plan: PlanSubmissionResponse) -> Iterator[str]:
    """The plan of an application, as text for people."""
    where = f"application {printable(plan.application_id)}"
    if not plan.accepted:
        yield f"{where} would be rejected: {human_text(plan.rejection)}"
        return
    rule = f" by placement rule {printable(plan.rule)}" if plan.rule else ""
    yield f"{where} would go to queue {printable(plan.queue)}{rule} of {printable(plan.partition)}"
    yield horizon(complete=plan.complete, seconds=plan.horizon_seconds, holds=plan.holds)
    placed = [ask for ask in plan.asks if ask.node_id]
    waits = [ask for ask in plan.asks if not ask.node_id]
    yield from _section("asks placed", len(placed), _grouped(placed, _place, _placed_line))
    yield from _section("asks that wait", len(waits), _grouped(waits, _wait, _waiting_line))
    yield from _section("victims", len(plan.victims), _grouped(plan.victims, _loss, victims_line))


def horizon(*, complete: bool, seconds: float, holds: Sequence[str] = ()) -> str:
    """A text about the horizon of the plan, and whether the plan is complete."""
    if holds:
        why = printable(", ".join(holds))
        return f"NOT COMPLETE: the RM is on hold ({why}), and nothing is scheduled for it meanwhile"
    far = f"the next {shorten(seconds)} s" if seconds else "this moment"
    if complete:
        return f"all that would happen in {far}, if nothing else happens"
    return f"NOT COMPLETE: more would happen than could be worked out, or later than in {far}"


def _queues(queues: Iterable[PlannedQueue]) -> Iterator[Iterable[str]]:
    """Queues with their changes. A property is listed where it is set, not where it is inherited."""
    changes: dict[tuple[str, str], set[tuple[str, str, str]]] = {}
    heirs = 0
    for queue in queues:
        mine = {(value.name, value.before, value.after) for value in queue.values}
        changes[queue.partition, queue.path] = mine
        above = changes.get((queue.partition, queue.path.rpartition(".")[0]), set())
        inherited = {value for value in mine & above if value[0].startswith("property ")}
        if mine and mine == inherited and not queue.over_max:
            heirs += 1
        else:
            yield queue_lines(queue, inherited)
    if heirs:
        yield [f"changed   {counted(heirs, 'more queue')}, by the same properties, which they inherit"]


def queue_lines(queue: PlannedQueue, inherited: Collection[tuple[str, str, str]] = ()) -> Iterator[str]:
    """A queue, followed by its changes except the `inherited` ones."""
    apps = f", {counted(queue.applications, 'application')}" if queue.applications else ""
    yield f"{queue.change:<9} {_placed(queue.path, queue.partition)}{apps}"
    if queue.change == "changed":
        for value in queue.values:
            if (value.name, value.before, value.after) in inherited:
                continue
            before, after = value.before or "nothing", value.after or "nothing"
            yield f"          {printable(f'{value.name}: {before} -> {after}')}"
    if queue.over_max:
        before = ""
        if queue.over_max_before == queue.over_max:
            before = ", as now"
        elif queue.over_max_before:
            before = f", now by {human_resources(queue.over_max_before)}"
        yield f"          over its maximum by {human_resources(queue.over_max)}{before}"


def limit_line(limit: ExceededLimit) -> str:
    """A user or group above its limit, with the amounts."""
    who = f"user {limit.user}" if limit.user else f"group {limit.group}"
    parts = []
    if limit.limit:
        parts.append(f"{human_resources(limit.used)} of {human_resources(limit.limit)}")
    if limit.max_applications:
        parts.append(f"{limit.applications} of {limit.max_applications} applications")
    already = ", exceeded now too" if limit.already else ""
    return f"{printable(who)} in {_placed(limit.queue, limit.partition)}: {', '.join(parts)}{already}"


def victims_line(victims: Sequence[PlannedVictim]) -> str:
    """A group of equal victims: queue, nodes, size, reason and time."""
    first = victims[0]
    whom = {
        "quota": "its queue has more than its maximum",
        "partition-removed": "its partition is removed",
    }.get(first.rule, "")
    if not whom:
        whom = f"for {first.for_application_id}/{first.for_allocation_key}"
    name = f"{first.application_id}/{first.allocation_key}"
    more = f" and {len(victims) - 1} like it" if len(victims) > 1 else ""
    size = human_resources(first.resource)
    return (
        f"{printable(name)}{more} of {_placed(first.queue, first.partition)} on {_nodes(victims)} "
        f"({size}){_after(first.seconds)}: {printable(whom)}"
    )


def _nodes(items: Sequence[PlannedAsk] | Sequence[PlannedVictim]) -> str:
    """The nodes with most of the items, and the number of other nodes."""
    nodes = Counter(item.node_id for item in items)
    shown = [
        printable(node) if count == 1 else f"{printable(node)} x{count}"
        for node, count in nodes.most_common(NODES_SHOWN)
    ]
    more = f" and {len(nodes) - NODES_SHOWN} more" if len(nodes) > NODES_SHOWN else ""
    return f"{', '.join(shown)}{more}"


def _placed_line(asks: Sequence[PlannedAsk]) -> str:
    first = asks[0]
    return f"{_of_app(first)}: {counted(len(asks), 'ask')} on {_nodes(asks)}{_after(first.seconds)}"


def _blocked_line(asks: Sequence[PlannedAsk]) -> str:
    first = asks[0]
    before = first.code_before or "nothing"
    return (
        f"{_of_app(first)}: {counted(len(asks), 'ask')}, stopped by {before} now, then by "
        f"{first.code}: {human_text(first.message)}"
    )


def _waiting_line(asks: Sequence[PlannedAsk]) -> str:
    first = asks[0]
    names = printable(first.allocation_key) + (" …" if len(asks) > 1 else "")
    why = f"{first.code}: {human_text(first.message)}" if first.code else "for its turn"
    return f"{counted(len(asks), 'ask')} ({names}): {why}"


def _place(ask: PlannedAsk) -> tuple[object, ...]:
    return ask.partition, ask.application_id, ask.queue, ask.seconds


def _stop(ask: PlannedAsk) -> tuple[object, ...]:
    return ask.partition, ask.application_id, ask.queue, ask.code_before, ask.code


def _wait(ask: PlannedAsk) -> tuple[object, ...]:
    # The text after "; " is about preemption for the same ask.
    return ask.code, ask.message.partition("; ")[0]


def _loss(victim: PlannedVictim) -> tuple[object, ...]:
    size = human_resources(victim.resource)
    where = (victim.partition, victim.application_id, victim.queue, size, victim.seconds)
    return (*where, victim.rule, victim.for_application_id, victim.for_allocation_key)


def _of_app(ask: PlannedAsk) -> str:
    return f"{printable(ask.application_id)} in {_placed(ask.queue, ask.partition)}"


def _placed(queue: str, partition: str) -> str:
    """The path of a queue, preceded by its partition unless that is the default partition."""
    name = partition.rpartition("]")[2]
    return printable(queue if name in ("", DEFAULT_PARTITION) else f"{queue} of partition {name}")


def _after(seconds: float) -> str:
    return f" after {shorten(seconds)} s" if seconds else ""


def _grouped(
    items: Iterable[T], key: Callable[[T], tuple[object, ...]], line: Callable[[Sequence[T]], str]
) -> Iterator[list[str]]:
    """A line for each group of equal asks or victims, ordered by their first members."""
    groups: dict[tuple[object, ...], list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return ([line(group)] for group in groups.values())


def _default_lines(defaults: Sequence[DefaultedValue], count: int) -> Iterator[str]:
    """Inherited values, and the number of defaults, as most values are defaults."""
    inherited = Counter(
        (value.name, value.value, value.origin) for value in defaults if value.origin != _DEFAULT
    )
    lines = (
        [f"{printable(f'{name} = {value}, from {origin}')}, in {counted(number, 'queue')}"]
        for (name, value, origin), number in inherited.items()
    )
    yield from _section("values inherited", len(inherited), lines)
    standing = count - sum(inherited.values())
    if standing:
        yield ""
        yield f"{counted(standing, 'value')} not given: the defaults hold (-o json has them)"


def _section(title: str, count: int, items: Iterable[Iterable[str]]) -> Iterator[str]:
    """A title and the lines of its items; nothing if there are no items."""
    listed = list(items)
    if not listed:
        return
    yield ""
    yield f"{title} ({count})"
    for lines in listed[:SHOWN]:
        for line in lines:
            yield f"  {line}"
    if len(listed) > SHOWN:
        yield f"  … and {len(listed) - SHOWN} more lines (-o json has up to 1,000 of each)"
