"""Small builders of commands, facts and records, so that a test shows only the relevant parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from licorne_core.config import submitted
from licorne_core.messages.commands import (
    AnswerPredicates,
    NewApplication,
    NodeAction,
    NodeRefusal,
    NodeUpdate,
    PredicateAnswer,
    PredicatePolicy,
    RegisterRm,
    ReleaseRequest,
    RemoveApplication,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.messages.effects import AskedCheck, Happened
from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath, RmId, UserGroup

RM = "rm1"


def register(
    config: str,
    rm: str = RM,
    extra: Mapping[str, str] | None = None,
    predicates: PredicatePolicy | None = None,
) -> RegisterRm:
    """An RM registers with a configuration."""
    return RegisterRm(
        rm_id=RmId(rm),
        config=submitted(config),
        extra_config=extra or {},
        predicates=predicates,
    )


def reload(config: str, rm: str = RM, extra: Mapping[str, str] | None = None) -> UpdateConfiguration:
    """An RM sends another configuration."""
    return UpdateConfiguration(rm_id=RmId(rm), config=submitted(config), extra_config=extra or {})


def node(
    node_id: str,
    action: NodeAction = NodeAction.CREATE,
    *,
    partition: str = "",
    attributes: Mapping[str, str] | None = None,
    size: Mapping[str, int] | None = None,
    **amounts: int,
) -> NodeUpdate:
    """One node of a size or of amounts; without any the message has no schedulable resource."""
    return NodeUpdate(
        node_id=NodeId(node_id),
        action=action,
        partition=partition,
        attributes=attributes or {},
        capacity=size or amounts or None,
    )


def nodes(*updates: NodeUpdate, rm: str = RM) -> UpdateNodes:
    """A request with these nodes."""
    return UpdateNodes(rm_id=RmId(rm), nodes=updates)


def app(
    app_id: str,
    queue: str = "",
    *,
    user: str = "ann",
    groups: Sequence[str] = (),
    partition: str = "",
    tags: Mapping[str, str] | None = None,
    gang: Mapping[str, int] | None = None,
    style: str = "",
    timeout: float = 0,
) -> NewApplication:
    """One application to add; `gang` is the amount of its placeholders, for `timeout` seconds."""
    return NewApplication(
        app_id=AppId(app_id),
        queue_name=queue,
        partition=partition,
        user=UserGroup(user, tuple(groups)),
        tags=tags or {},
        placeholder_ask=gang or {},
        gang_scheduling_style=style,
        execution_timeout=int(timeout * 1000),
    )


def apps(*new: NewApplication, rm: str = RM) -> UpdateApplications:
    """A request that adds these applications."""
    return UpdateApplications(rm_id=RmId(rm), new=new)


def remove_apps(*app_ids: str, rm: str = RM, partition: str = "") -> UpdateApplications:
    """A request that removes these applications."""
    gone = [RemoveApplication(app_id=AppId(app_id), partition=partition) for app_id in app_ids]
    return UpdateApplications(rm_id=RmId(rm), remove=gone)


def ask(
    app_id: str,
    key: str,
    *,
    priority: int = 0,
    created: float | None = None,
    on_node: str | None = None,
    required_node: str | None = None,
    predicate: str | None = None,
    partition: str = "",
    group: str = "",
    placeholder: bool = False,
    policy: str = "",
    originator: bool = False,
    tags: Mapping[str, str] | None = None,
    size: Mapping[str, int] | None = None,
    **amounts: int,
) -> Ask:
    """One ask of a size or of amounts; with `on_node` an existing allocation.

    In `policy` the letter ``s`` lets it be preempted, and ``o`` preempt others.
    """
    return Ask(
        key=AllocationKey(key),
        app_id=AppId(app_id),
        ask_class=AskClass.of(
            size or amounts, None if required_node is None else NodeId(required_node), predicate
        ),
        priority=priority,
        create_time=created,
        node_id=None if on_node is None else NodeId(on_node),
        partition=partition,
        task_group=group,
        placeholder=placeholder,
        allow_preempt_self="s" in policy,
        allow_preempt_other="o" in policy,
        originator=originator,
        tags=tags or {},
    )


def foreign(key: str, on_node: str, **amounts: int) -> Ask:
    """An allocation of another scheduler on a node."""
    return ask("", key, on_node=on_node, tags={"foreign": "default"}, size=amounts)


def asks(*wanted: Ask, rm: str = RM) -> UpdateAllocations:
    """A request with these asks."""
    return UpdateAllocations(rm_id=RmId(rm), asks=wanted)


def release(
    app_id: str,
    key: str = "",
    *,
    why: TerminationType = TerminationType.STOPPED_BY_RM,
    partition: str = "",
) -> ReleaseRequest:
    """One release; without a key everything of the application."""
    return ReleaseRequest(app_id=AppId(app_id), key=AllocationKey(key), termination=why, partition=partition)


def releases(*wanted: ReleaseRequest, rm: str = RM) -> UpdateAllocations:
    """A request with these releases."""
    return UpdateAllocations(rm_id=RmId(rm), releases=wanted)


def answering(check: AskedCheck, refused: Sequence[NodeRefusal] = (), rm: str = RM) -> AnswerPredicates:
    """The RM answers a predicate check, refusing these nodes."""
    return AnswerPredicates(rm_id=RmId(rm), answers=[PredicateAnswer(check.check, refused)])


def refusing(check: AskedCheck, *names: str, why: str = "no") -> AnswerPredicates:
    """The RM refuses these nodes of a check, or all of them."""
    refused = [NodeRefusal(node_id=NodeId(name), reason=why) for name in names or check.nodes]
    return answering(check, refused)


MANY_RESERVED = "{reservation.max.nodes: '9', application.reservation.max.nodes: '9'}"
"""Properties of root with which more than one node of a small cluster may be reserved."""


NONE_RESERVED = "{reservation.max.nodes: '0'}"
"""Properties of root with which only nodes for promises are reserved."""


def config(queues: str, *, rest: str = "", name: str = "default", properties: str = "") -> str:
    """A configuration of one partition to which everybody may submit.

    `queues` is a YAML list of the queues below root, in one line; `rest` are more settings of the partition,
    each in a line of its own. `properties` are those of root.
    """
    settings = "".join(f"    {line}\n" for line in rest.splitlines())
    its = f"properties: {properties}, " if properties else ""
    root = f"{{name: root, submitacl: '*', {its}queues: {queues}}}"
    return f"partitions:\n  - name: {name}\n{settings}    queues: [{root}]\n"


START = 1_700_000_000.0
"""The default time of facts."""


@dataclass(frozen=True, slots=True)
class Counted:
    """This number of events about the applications ``app-<first>`` and following."""

    first: int
    count: int = 1
    time: float = START

    def records(self) -> list[EventRecord]:
        """Each about its own application."""
        return [
            EventRecord(
                type=EventType.APP,
                object_id=f"app-{number}",
                reference_id=f"k-{number}",
                time=self.time,
                change=EventChange.ADD,
                detail=EventDetail.APP_ALLOC,
                resource={"vcore": 100},
            )
            for number in range(self.first, self.first + self.count)
        ]


def counted(first: int, count: int, *, each: int = 1, time: float = START) -> list[Counted]:
    """This number of facts of `each` events, numbered continuously."""
    return [Counted(first + i * each, each, time) for i in range(count)]


def happened(rm_id: str, first: int, count: int, *, each: int = 1, time: float = START) -> Happened:
    """The core's effect with these facts."""
    return Happened(rm_id=RmId(rm_id), facts=counted(first, count, each=each, time=time))


TIME = 1_700_000_000.0


def numbers(path: str, *, vcore: int = 100) -> QueueNumbers:
    """A queue of which all amounts differ."""
    return QueueNumbers(
        path=QueuePath(path),
        guaranteed={"vcore": vcore},
        max={"vcore": vcore + 1},
        allocated={"vcore": vcore + 2},
        preempting={"vcore": vcore + 3},
        promised={"vcore": vcore + 4},
    )


def victim(
    key: str,
    app_id: str = "low",
    *,
    rule: PreemptionRule = PreemptionRule.GUARANTEE,
    time: float = TIME,
    released: float = 0.0,
) -> PreemptionRecord:
    """A victim in `root.low` on node `n1`, for the ask `k` of `app` in `root.high`."""
    for_ask = rule is not PreemptionRule.QUOTA
    return PreemptionRecord(
        app_id=AppId(app_id),
        key=AllocationKey(key),
        node_id=NodeId("n1"),
        resources={"vcore": 7},
        priority=-3,
        time=time,
        rule=rule,
        victim_queue=numbers("root.low"),
        beneficiary_app_id=AppId("app" if for_ask else ""),
        beneficiary_key=AllocationKey("k" if for_ask else ""),
        beneficiary_priority=9 if for_ask else 0,
        beneficiary_queue=numbers("root.high" if for_ask else "root", vcore=200),
        released_time=released,
    )
