"""The table of all commands and their fields."""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from licorne_core.config import SubmittedConfig, submitted
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets, SetBudgetSlices
from licorne_core.extensions.drains.messages import Cordon, DrainNode, DrainTerms, SetNodeSchedulable
from licorne_core.extensions.holds.messages import ApplicationMarks, ChangeApplication, HoldApplication
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.extensions.queue_stops.messages import SetQueueStopped
from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    AskBackoff,
    BeginReplay,
    EndReplay,
    FailMode,
    Hold,
    NewApplication,
    NodeAction,
    NodeRefusal,
    NodeUpdate,
    NotePredicatesSent,
    Options,
    PredicateAnswer,
    PredicatePolicy,
    PreemptionAnswer,
    RefuseNewWork,
    RegisterRm,
    ReleaseRequest,
    RemoveApplication,
    RemoveRm,
    SetHold,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.messages.fairness import KeptUsage, UsageOwner
from licorne_core.messages.kept import Kept
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId, UserGroup
from licorne_core.values.rm_caps import RmCaps, Shortage
from licorne_core.values.slices import Tuning
from licorne_server.configurations.kept import kept_forms
from licorne_server.journal.forms import (
    AMOUNTS,
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Form,
    Reading,
    Row,
    array,
    items,
    optional,
    packer,
    pairs,
    plain,
    word,
)
from licorne_server.journal.records import Digest


class OperatorMarks(NamedTuple):
    """Marks of operators as a journal has them: in columns."""

    nodes: Any
    queues: Any
    applications: Any


class Again(NamedTuple):
    """The core gets the rest of the command of this RM that it has begun."""

    rm_id: RmId


@lru_cache(maxsize=16)
def _configuration(text: str | None) -> SubmittedConfig:
    return submitted(text or "")


_CONFIGURATION = Form(
    lambda config: None if config is None else config.text, lambda _: Reading(str | None, _configuration)
)
"""A configuration is written as its text, of which the reader makes what the writer made."""

_MARK = Row(OperatorMark, by=TEXT, time=NUMBER, message=TEXT)
_TERMS = Row(DrainTerms, start=NUMBER, deadline=optional(NUMBER), allocations=WHOLE)
_CORDON = Row(Cordon, mark=_MARK, drain=optional(_TERMS))
_APPLICATION_MARKS = Row(
    ApplicationMarks,
    hold=optional(_MARK),
    change=optional(_MARK),
    priority=optional(WHOLE),
    queue=TEXT,
)
_NAMED = array(TEXT, TEXT)
_COLUMNS = {"drains": "nodes", "queue_stops": "queues", "holds": "applications"}
"""Columns of marks, by the extensions that know them."""
_MARKED = {
    "nodes": pairs(_NAMED, _CORDON),
    "queues": pairs(_NAMED, _MARK),
    "applications": pairs(_NAMED, _APPLICATION_MARKS),
}
_pack_marked = packer({column: form.pack for column, form in _MARKED.items()})
_MARKS = Row(
    OperatorMarks,
    lambda values: {name: values[column] for name, column in _COLUMNS.items() if values.get(column)},
    lambda marks: _pack_marked(OperatorMarks(*[marks.get(name, {}) for name in _COLUMNS])),
    **_MARKED,
)

_OWNER = Row(UsageOwner, path=TEXT, user=TEXT)
_SUMS = plain(dict[str, float])
_USAGE = Row(KeptUsage, half_life=NUMBER, time=NUMBER, values=_SUMS, amounts=AMOUNTS, before=_SUMS)
_KEPT: Mapping[str, tuple[str, Form]] = {
    "fair_memory": ("usage", pairs(_OWNER, _USAGE)),
    **{of: (form.name, pairs(form.owner, form.value)) for of, form in kept_forms().items()},
}
"""Columns of what partitions keep, by the extensions that keep it."""


def _kept_columns(kept: Kept) -> list[Any]:
    return [form.pack(kept.get(of, {})) for of, (_, form) in _KEPT.items() if form.pack is not None]


def _kept_of(columns: Mapping[str, Any]) -> Kept:
    found = {of: columns.get(name) for of, (name, _) in _KEPT.items()}
    return {of: kept for of, kept in found.items() if kept}


_MEMORY = Row(
    namedtuple("PartitionMemory", [name for name, _ in _KEPT.values()]),
    _kept_of,
    _kept_columns,
    **dict(_KEPT.values()),
)
_POLICY = Row(PredicatePolicy, deadline=NUMBER, fail_mode=word(FailMode), judges_victims=FLAG)
_NODE = Row(
    NodeUpdate,
    node_id=TEXT,
    action=word(NodeAction),
    partition=TEXT,
    attributes=TEXTS,
    capacity=optional(AMOUNTS),
)
_USER = Row(UserGroup, user=TEXT, groups=items(TEXT))
_APPLICATION = Row(
    NewApplication,
    app_id=TEXT,
    queue_name=TEXT,
    partition=TEXT,
    user=_USER,
    tags=TEXTS,
    execution_timeout=WHOLE,
    placeholder_ask=AMOUNTS,
    gang_scheduling_style=TEXT,
)
_REMOVAL = Row(RemoveApplication, app_id=TEXT, partition=TEXT)
_RELEASE = Row(
    ReleaseRequest,
    app_id=TEXT,
    key=TEXT,
    termination=word(TerminationType),
    partition=TEXT,
    message=TEXT,
)


def _columns_of(ask: Ask) -> tuple[Any, ...]:
    """The columns of an ask. Written out, this takes half of the time of `attrgetter`."""
    ask_class = ask.ask_class
    return (
        ask.key,
        ask.app_id,
        ask_class.shape.resources,
        ask_class.required_node,
        ask_class.predicate,
        ask.priority,
        ask.create_time,
        ask.node_id,
        ask.partition,
        ask.originator,
        ask.allow_preempt_self,
        ask.allow_preempt_other,
        ask.placeholder,
        ask.task_group,
        ask.tags,
        ask.footprint,
    )


def _ask(values: dict[str, Any]) -> Ask:
    resources = values.pop("resources", {})
    ask_class = AskClass.of(resources, values.pop("required_node", None), values.pop("predicate", None))
    return Ask(ask_class=ask_class, **values)


_ASK = Row(
    Ask,
    _ask,
    _columns_of,
    key=TEXT,
    app_id=TEXT,
    resources=AMOUNTS,
    required_node=optional(TEXT),
    predicate=optional(TEXT),
    priority=WHOLE,
    create_time=optional(NUMBER),
    node_id=optional(TEXT),
    partition=TEXT,
    originator=FLAG,
    allow_preempt_self=FLAG,
    allow_preempt_other=FLAG,
    placeholder=FLAG,
    task_group=TEXT,
    tags=TEXTS,
    footprint=WHOLE,
)
_REFUSAL = Row(NodeRefusal, node_id=TEXT, reason=TEXT)
_ANSWER = Row(PredicateAnswer, check=WHOLE, refused=items(_REFUSAL))
_PREEMPTION_ANSWER = Row(PreemptionAnswer, check=WHOLE, needed=AMOUNTS)
_NOTICE_ANSWER = Row(NoticeAnswer, app_id=TEXT, key=TEXT, partition=TEXT, later=NUMBER)
_PATTERN = Row(BudgetPattern, rm=TEXT, partition=TEXT, queue=TEXT)
_AMOUNTS_OF = plain(dict[str, dict[str, int]])
_BUDGET = Row(Budget, name=TEXT, limit=AMOUNTS, members=items(_PATTERN), slices=optional(_AMOUNTS_OF))

COMMANDS = (
    Row(Tick, decisions=WHOLE),
    Row(UpdateAllocations, rm_id=TEXT, asks=items(_ASK), releases=items(_RELEASE)),
    Row(UpdateApplications, rm_id=TEXT, new=items(_APPLICATION), remove=items(_REMOVAL)),
    Row(UpdateNodes, rm_id=TEXT, nodes=items(_NODE)),
    Row(
        RegisterRm,
        rm_id=TEXT,
        version=TEXT,
        policy_group=TEXT,
        build_info=TEXTS,
        config=_CONFIGURATION,
        extra_config=TEXTS,
        predicates=optional(_POLICY),
        container_states=FLAG,
        marks=_MARKS,
        memory=pairs(TEXT, _MEMORY),
    ),
    Row(UpdateConfiguration, rm_id=TEXT, policy_group=TEXT, config=_CONFIGURATION, extra_config=TEXTS),
    Row(RemoveRm, rm_id=TEXT),
    Row(AnswerPredicates, rm_id=TEXT, answers=items(_ANSWER)),
    Row(AnswerPreemptions, rm_id=TEXT, answers=items(_PREEMPTION_ANSWER)),
    Row(AnswerNotices, rm_id=TEXT, answers=items(_NOTICE_ANSWER)),
    Row(NotePredicatesSent, rm_id=TEXT, check=WHOLE),
    Row(BeginReplay, rm_id=TEXT),
    Row(EndReplay, rm_id=TEXT, nodes=WHOLE, applications=WHOLE, allocations=WHOLE),
    Row(SetHold, rm_id=TEXT, hold=word(Hold), on=FLAG),
    Row(SetNodeSchedulable, rm_id=TEXT, partition=TEXT, node_id=TEXT, schedulable=FLAG, mark=_MARK),
    Row(DrainNode, rm_id=TEXT, partition=TEXT, node_id=TEXT, seconds=optional(NUMBER), mark=_MARK),
    Row(StopApplication, rm_id=TEXT, partition=TEXT, app_id=TEXT, reason=TEXT),
    Row(SetQueueStopped, rm_id=TEXT, partition=TEXT, queue=TEXT, stopped=FLAG, mark=_MARK),
    Row(HoldApplication, rm_id=TEXT, partition=TEXT, app_id=TEXT, held=FLAG, mark=_MARK),
    Row(
        ChangeApplication,
        rm_id=TEXT,
        partition=TEXT,
        app_id=TEXT,
        priority=optional(WHOLE),
        reset_priority=FLAG,
        queue=TEXT,
        mark=_MARK,
    ),
    Row(RefuseNewWork, shortage=word(Shortage), reason=TEXT),
    Row(SetBudgets, budgets=items(_BUDGET), floating=items(TEXT, frozenset)),
    Row(SetBudgetSlices, budget=TEXT, slices=_AMOUNTS_OF),
)
"""All commands."""

_BACKOFF = Row(AskBackoff, first=NUMBER, most=NUMBER)
_TUNING = Row(
    Tuning,
    fill_work=WHOLE,
    slice_size=WHOLE,
    timeout_size=WHOLE,
    inspection_time=NUMBER,
)
_CAPS = Row(RmCaps, **{field.name: WHOLE for field in fields(RmCaps)})
OPTIONS = Row(
    Options,
    default_config=_CONFIGURATION,
    reservations=FLAG,
    ask_backoff=_BACKOFF,
    tuning=_TUNING,
    rm_caps=_CAPS,
)

ENTRIES = (*COMMANDS, Row(Again, rm_id=TEXT), Row(Digest, count=WHOLE, value=plain(bytes)))
"""All that a file has behind its header. The place of an entry in that header is its tag in the file."""

ROWS = {
    row.name: row
    for row in (
        *ENTRIES,
        OPTIONS,
        *(_BACKOFF, _TUNING, _CAPS),
        *(_MARK, _TERMS, _CORDON, _APPLICATION_MARKS, _MARKS),
        *(_OWNER, _USAGE, *chain.from_iterable(form.rows for form in kept_forms().values()), _MEMORY),
        *(_POLICY, _NODE, _USER, _APPLICATION, _REMOVAL, _RELEASE, _ASK),
        *(_REFUSAL, _ANSWER, _PREEMPTION_ANSWER, _NOTICE_ANSWER, _PATTERN, _BUDGET),
    )
}
"""All records by their names."""
