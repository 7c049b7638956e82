"""Reports in a scenario. ``partition=P`` selects a partition other than `default`."""

from importlib import import_module

from licorne_core.config import load
from licorne_core.messages.preemption import PreemptionRecord, QueueNumbers
from licorne_core.values.errors import ConfigError, NotFound
from licorne_core.views.queues import QueueReport, QueueUsage
from scenarios.printing import amounts, maximum
from scenarios.stage import Line, Stage
from support.core.driver import START, heard
from support.core.reports import applications_in, queues_in
from support.core.steps import last, listed


def partitions(stage: Stage, _: Line) -> list[str]:
    """``partitions``: all partitions with node order, numbers of nodes and allocations."""
    lines = []
    for partition in stage.driver.views.partitions():
        weights = " ".join(f"{k}={v:g}" for k, v in sorted(partition.node_sort_weights.items()))
        over = f" over {partition.node_sort_attribute}" if partition.node_sort_attribute else ""
        lines.append(
            f"{partition.name} {partition.state}: {partition.nodes} nodes by "
            f"{partition.node_sort_policy}{over} ({weights}), {partition.allocations} allocations, "
            f"{partition.pending_asks} asks, preemption "
            f"{'on' if partition.preemption_enabled else 'off'}"
        )
    return lines


def queues(stage: Stage, line: Line) -> list[str]:
    """``queues [partition=P]``: all queues with usage, pending amounts and maximum."""
    name = stage.partition(line)
    return [
        f"{queue.path} {queue.state}: has {amounts(queue.allocated)}, "
        f"waits for {amounts(queue.pending)}, max {maximum(queue.max)}"
        for queue in queues_in(stage.driver.views, name)
    ]


def queue(stage: Stage, line: Line) -> list[str]:
    """``queue PATH... [partition=P]``: settings of queues that differ from their defaults."""
    name = stage.partition(line)
    lines = []
    for path in line.words:
        queue = stage.driver.views.queue(name, path)
        kind = "leaf" if queue.is_leaf else "parent"
        made = "managed" if queue.is_managed else "dynamic"
        lines.append(f"{queue.path} {queue.state}: {made} {kind}")
        lines += [f"  {what}" for what in _settings(queue)]
    return lines


def _settings(queue: QueueReport) -> list[str]:
    threshold, delay = queue.extended.get("backoff_threshold"), queue.extended.get("backoff_delay")
    shown = {
        f"guaranteed {amounts(queue.guaranteed)}": queue.guaranteed,
        f"max {maximum(queue.max)}": queue.max and queue.parent,
        f"{queue.max_applications} applications at once": queue.max_applications,
        f"sorted {queue.sort_policy}": queue.sort_policy != "fifo",
        "priorities only break ties": not queue.priority_sort,
        f"priority offset {queue.priority_offset}": queue.priority_offset,
        "priority fence": queue.priority_fence,
        f"preemption {queue.preemption_policy}": queue.preemption_policy != "default",
        f"back-off after {threshold} asks, for {delay or 0:g} s": threshold,
        "template for the leaves below": queue.template,
    }
    return [what for what, is_set in shown.items() if is_set]


def fleet(stage: Stage, line: Line) -> list[str]:
    """``fleet [partition=P]``: the nodes in their order, with free amounts and utilization."""
    views = stage.driver.views
    name = stage.partition(line)
    return [
        f"{node.node_id}{'' if node.schedulable else ' drained'}: "
        f"free {amounts(node.available)}, {node.utilization:.2f} full"
        for node in (views.node(name, each) for each in listed(views.node_ids_in_order(name)))
    ]


def applications(stage: Stage, line: Line) -> list[str]:
    """``applications [partition=P]``: present applications with state, usage and pending amounts."""
    name = stage.partition(line)
    return [
        f"{app.app_id} in {app.queue} {app.state}: has {amounts(app.allocated)}, "
        f"waits for {amounts(app.pending)}"
        for app in applications_in(stage.driver.views, name)
    ]


def ended(stage: Stage, line: Line) -> list[str]:
    """``ended [partition=P]``: rejected and completed applications that are still listed."""
    name = stage.partition(line)
    return [
        f"{app.app_id} {app.state}{f': {app.message}' if app.message else ''}"
        for state in ("rejected", "completed")
        for app in applications_in(stage.driver.views, name, state=state)
    ]


def usage(stage: Stage, line: Line) -> list[str]:
    """``usage user|group NAME [partition=P]``: the usage of a user or group, queue by queue."""
    partition = stage.partition(line)
    kind, name = line.words
    try:
        return _usage(last(stage.driver.views.usage(partition, kind, name)).queues)
    except NotFound as error:
        return [str(error)]


def _usage(usage: QueueUsage) -> list[str]:
    running = " ".join(usage.applications) or "-"
    limits = f"max {maximum(usage.max)}"
    if usage.max_applications:
        limits += f" and {usage.max_applications} applications"
    lines = [f"{usage.path}: has {amounts(usage.allocated)}, running {running}, {limits}"]
    for child in usage.children:
        lines += _usage(child)
    return lines


def explain(stage: Stage, line: Line) -> list[str]:
    """``explain APP KEY [partition=P]``: the explanation of an ask."""
    name = stage.partition(line)
    app_id, key = line.words
    explanation = last(stage.driver.views.explain(name, app_id, key))
    marks = ((" ok " if check.passed else "STOP", check.message()) for check in explanation.checks)
    return [
        f"{explanation.verdict}: {explanation.summary}",
        *(f"[{mark}] {message}" for mark, message in marks),
    ]


def reserved(stage: Stage, line: Line) -> list[str]:
    """``reserved [partition=P]``: the reserved nodes, with the asks."""
    name = stage.partition(line)
    return [
        f"{reservation.node_id} for {reservation.app_id}/{reservation.key}"
        for reservation in listed(stage.driver.views.reservations(name))
    ]


def calendar(stage: Stage, line: Line) -> list[str]:
    """``calendar [partition=P]``: shadow starts, earliest first, in seconds since the scenario began."""
    # Imported here because scenarios are also played without the extension.
    starts_of = import_module("licorne_core.extensions.backfill.extension").starts_of
    partition = stage.driver.scheduler.partitions[stage.partition(line)]
    return [
        f"{shadow.app.app_id}/{shadow.request.key} at {shadow.start - START:g} on "
        f"{' '.join(node.node_id for node in shadow.places)}"
        for shadow in sorted(starts_of(partition).shadows, key=lambda one: one.start)
    ]


def preempted(stage: Stage, line: Line) -> list[str]:
    """``preempted [APP] [partition=P]``: the ledger of victims, oldest first."""
    partition = stage.driver.scheduler.partitions[stage.partition(line)]
    records = [*partition.ledger.latest(*line.words)]
    return [text for record in reversed(records) for text in _record(record)]


def _record(record: PreemptionRecord) -> list[str]:
    said = [f"{record.app_id}/{record.key} on {record.node_id}"]
    if record.beneficiary_key:
        said.append(f"for {record.beneficiary_app_id}/{record.beneficiary_key}")
    went = f"gone after {record.released_time - record.time:g} s"
    said += [record.rule, went if record.released_time else "not gone yet"]
    lines = [", ".join(said), f"  from {_numbers(record.victim_queue)}"]
    if record.beneficiary_queue is not None:
        lines.append(f"  for {_numbers(record.beneficiary_queue)}")
    return lines


def _numbers(queue: QueueNumbers) -> str:
    return (
        f"{queue.path}: has {amounts(queue.allocated)}, guaranteed {amounts(queue.guaranteed)}, "
        f"max {maximum(queue.max)}, preempting {amounts(queue.preempting)}, "
        f"promised {amounts(queue.promised)}"
    )


def promised(stage: Stage, line: Line) -> list[str]:
    """``promised [partition=P]``: queues that lose victims, or to which the room of victims is promised."""
    tree = stage.driver.scheduler.partitions[stage.partition(line)].tree
    return [
        f"{queue.path}: preempting {amounts(queue.preempting)}, promised {amounts(queue.promised)}"
        for queue in tree.walk()
        if any(queue.preempting.values()) or any(queue.promised.values())
    ]


def events(stage: Stage, line: Line) -> list[str]:
    """``events [WORD...]``: the events since the previous call that contain one of the words, or all."""
    return heard(stage.driver, *line.words)


def rms(stage: Stage, _: Line) -> list[str]:
    """``rms``: the registered RMs, with session, partitions and extra configuration."""
    lines = []
    for rm in stage.driver.views.rms():
        extra = " ".join(f"{key}={value}" for key, value in sorted(rm.extra_config.items()))
        partitions = " ".join(rm.partitions)
        lines.append(f"{rm.rm_id}, session {rm.session}: {partitions}, extra {extra or '-'}")
    return lines


def validate(_: Stage, line: Line) -> list[str]:
    """``validate [strict]``: the problems or warnings of the configuration that follows."""
    try:
        configuration = load(line.text, strict="strict" in line.words)
    except ConfigError as error:
        return ["refused", *(str(problem) for problem in error.problems)]
    return ["allowed", *(f"warning: {warning}" for warning in configuration.warnings)]
