"""Commands of an RM in a scenario: each verb with its words and settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    BeginReplay,
    Command,
    EndReplay,
    FailMode,
    NodeAction,
    NodeRefusal,
    PredicateAnswer,
    PredicatePolicy,
    PreemptionAnswer,
    RemoveRm,
    TerminationType,
)
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId
from scenarios.stage import Line, Stage
from support.core import builders

ACTIONS = {
    "drain": NodeAction.DRAIN_NODE,
    "schedulable": NodeAction.DRAIN_TO_SCHEDULABLE,
    "remove": NodeAction.DECOMISSION,
    "resize": NodeAction.UPDATE,
}


def rm(stage: Stage, line: Line) -> list[str]:
    """``rm NAME [begin=yes] [predicates=S] [victims=yes] [fail=open] [extra:KEY=VALUE...]``.

    An RM registers with the configuration that follows. With `predicates` it requests checks, and has S
    seconds to answer; with `victims` it judges victims as well.
    """
    (name,) = line.words
    extra = line.take_all("extra:")
    deadline, fail = line.take("predicates"), line.take("fail", "closed")
    judges = line.take("victims") == "yes"
    policy = None
    if deadline:
        policy = PredicatePolicy(
            deadline=float(deadline), fail_mode=FailMode[fail.upper()], judges_victims=judges
        )
    request = builders.register(line.text, rm=name, extra=extra, predicates=policy)
    return stage.hand_in(line, request)


def reload(stage: Stage, line: Line) -> list[str]:
    """``reload [begin=yes] [extra:KEY=VALUE...]``: the RM sends the configuration that follows."""
    extra = line.take_all("extra:")
    return stage.hand_in(line, builders.reload(line.text, rm=stage.rm, extra=extra))


def replay(stage: Stage, line: Line) -> list[str]:
    """``replay begin`` or ``replay end [nodes=N] [apps=N] [asks=N]``: begin or end of a replay by the RM."""
    rm_id = RmId(stage.rm)
    if line.words == ["begin"]:
        return stage.send(BeginReplay(rm_id=rm_id))
    end = EndReplay(
        rm_id=rm_id,
        nodes=int(line.take("nodes", "0")),
        applications=int(line.take("apps", "0")),
        allocations=int(line.take("asks", "0")),
    )
    return stage.send(end)


def leave(stage: Stage, _: Line) -> list[str]:
    """``leave``: the RM unregisters."""
    return stage.send(RemoveRm(rm_id=RmId(stage.rm)))


def nodes(stage: Stage, line: Line) -> list[str]:
    """``nodes ID... [drained] [partition=P] [zone=Z] [attr:NAME=VALUE...] vcore=N ...``: add nodes."""
    drained, zone = "drained" in line.words, line.take("zone")
    new = partial(
        builders.node,
        action=NodeAction.CREATE_DRAIN if drained else NodeAction.CREATE,
        partition=line.take("partition"),
        attributes=line.take_all("attr:") | ({"zone": zone} if zone else {}),
        size=line.resources(),
    )
    names = [word for word in line.words if word != "drained"]
    return stage.send(builders.nodes(*map(new, names), rm=stage.rm))


def node(stage: Stage, line: Line) -> list[str]:
    """``node ID drain | schedulable | remove | resize [vcore=N ...]``: a node changes."""
    name, action = line.words
    partition = line.take("partition")
    update = builders.node(name, ACTIONS[action], partition=partition, size=line.resources())
    return stage.send(builders.nodes(update, rm=stage.rm))


def apps(stage: Stage, line: Line) -> list[str]:
    """``apps ID... in=QUEUE [user=U] [groups=G,H] [tag:NAME=VALUE...]``: applications are submitted.

    With ``gang:TYPE=N``, and optionally ``style=hard timeout=S``, each application has a gang.
    """
    new = partial(
        builders.app,
        queue=line.take("in"),
        user=line.take("user", "ann"),
        groups=[group for group in line.take("groups").split(",") if group],
        partition=line.take("partition"),
        tags=line.take_all("tag:"),
        gang={name: int(value) for name, value in line.take_all("gang:").items()},
        style=line.take("style"),
        timeout=float(line.take("timeout", "0")),
    )
    return stage.send(builders.apps(*map(new, line.words), rm=stage.rm))


def remove(stage: Stage, line: Line) -> list[str]:
    """``remove ID...``: remove applications with their asks and allocations."""
    command = builders.remove_apps(*line.words, rm=stage.rm, partition=line.take("partition"))
    return stage.send(command)


def asks(stage: Stage, line: Line) -> list[str]:
    """``asks APP KEY... [priority=N] [age=S] [on=NODE] [required=NODE] [predicate=CLASS] vcore=N ...``.

    Asks arrive. With `on` they are allocations that exist already; `age` is in seconds. More settings:
    ``group=G`` names the task group, ``placeholder=yes`` makes placeholders. ``may=`` has ``s`` for asks that
    may be preempted and ``o`` for asks that may preempt others; ``originator=yes``.
    """
    app_id, *keys = line.words
    age = line.take("age")
    new = partial(
        builders.ask,
        app_id,
        priority=int(line.take("priority", "0")),
        created=stage.driver.now - float(age) if age else None,
        on_node=line.take("on") or None,
        required_node=line.take("required") or None,
        predicate=line.take("predicate") or None,
        partition=line.take("partition"),
        group=line.take("group"),
        placeholder=line.take("placeholder") == "yes",
        policy=line.take("may"),
        originator=line.take("originator") == "yes",
        tags=line.take_all("tag:"),
        size=line.resources(),
    )
    return stage.send(builders.asks(*map(new, keys), rm=stage.rm))


def operator(stage: Stage, line: Line) -> list[str]:
    """``operator cordon NODE``, ``uncordon NODE``, ``drain NODE SECONDS`` or ``priority APP N``."""
    from extensions.drains import building as drains
    from extensions.holds import building as holds

    verb, name, *rest = line.words
    by_verb: dict[str, Callable[[], Command]] = {
        "cordon": lambda: drains.cordon(name, rm=stage.rm),
        "uncordon": lambda: drains.cordon(name, schedulable=True, rm=stage.rm),
        "drain": lambda: drains.drain(name, float(rest[0]), rm=stage.rm),
        "priority": lambda: holds.change(name, priority=int(rest[0]), rm=stage.rm),
    }
    return stage.told(stage.driver.do(by_verb[verb]()))


def foreign(stage: Stage, line: Line) -> list[str]:
    """``foreign KEY [on=NODE memory=N ...]``: an allocation of another scheduler; without a size, its end."""
    (key,) = line.words
    on_node = line.take("on")
    size = line.resources()
    if not size:
        return stage.send(builders.releases(builders.release("", key), rm=stage.rm))
    taken = replace(builders.ask("", key, on_node=on_node or None, size=size), tags={"foreign": "default"})
    return stage.send(builders.asks(taken, rm=stage.rm))


def release(stage: Stage, line: Line) -> list[str]:
    """``release APP [KEY...] [why=TYPE]``: the RM releases asks or allocations; without a key, all."""
    app_id, *gone = line.words
    why, partition = TerminationType[line.take("why", "STOPPED_BY_RM")], line.take("partition")
    wanted = [builders.release(app_id, key, why=why, partition=partition) for key in gone or [""]]
    return stage.send(builders.releases(*wanted, rm=stage.rm))


def confirm(stage: Stage, line: Line) -> list[str]:
    """``confirm [APP...]``: the RM confirms all requested stops, of these applications or of all.

    Afterwards the core decides until it is idle.
    """
    partition = stage.driver.scheduler.partitions[stage.partition(line)]
    stopped = [
        builders.release(app.app_id, request.key, why=why)
        for app in partition.applications.values()
        if not line.words or app.app_id in line.words
        for request in app.requests.values()
        if (why := _reason(request)) is not None
    ]
    return stage.told(stage.driver.do(builders.releases(*stopped, rm=stage.rm)))


def _reason(request: Request) -> TerminationType | None:
    """The reason sent to the RM with the request to stop; None without a request."""
    if request.state is RequestState.PREEMPTING:
        return TerminationType.PREEMPTED_BY_SCHEDULER
    if request.state is not RequestState.RELEASING:
        return None
    replaced = request.partner is not None
    return TerminationType.PLACEHOLDER_REPLACED if replaced else TerminationType.TIMEOUT


def answer(stage: Stage, line: Line) -> list[str]:
    """``answer CHECK [NODE=REASON...]``: the RM refuses these nodes, and accepts all others."""
    (number,) = line.words
    refused = [NodeRefusal(node_id=NodeId(n), reason=why) for n, why in line.settings.items()]
    command = AnswerPredicates(rm_id=RmId(stage.rm), answers=[PredicateAnswer(int(number), refused)])
    return stage.told(stage.driver.do(command))


def ready(stage: Stage, line: Line) -> list[str]:
    """``ready APP KEY... [after=SECONDS]``: victims under notice may be stopped now, or after this time."""
    from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer

    app_id, *keys = line.words
    later = float(line.take("after", "0"))
    answers = [NoticeAnswer(AppId(app_id), AllocationKey(key), "", later) for key in keys]
    return stage.told(stage.driver.do(AnswerNotices(rm_id=RmId(stage.rm), answers=answers)))


def victims(stage: Stage, line: Line) -> list[str]:
    """``victims CHECK [NODE=POSITION...]``: on these nodes the victims up to the position must be stopped.

    Positions count from 0 in the order of the check, -1 for none; other nodes are refused.
    """
    (number,) = line.words
    needed = {NodeId(node): int(position) for node, position in line.settings.items()}
    command = AnswerPreemptions(rm_id=RmId(stage.rm), answers=[PreemptionAnswer(int(number), needed)])
    return stage.told(stage.driver.do(command))
