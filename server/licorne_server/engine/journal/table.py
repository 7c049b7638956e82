"""The table of all commands and their fields."""

from collections.abc import Mapping
from dataclasses import fields, make_dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from licorne_core.config import SubmittedConfig, submitted
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
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId, UserGroup
from licorne_core.values.rm_caps import MemoryShortage, RmCaps
from licorne_core.values.slices import Tuning
from licorne_server.engine.journal.forms import (
    AMOUNTS,
    FLAG,
    MARK,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Form,
    Reading,
    Row,
    items,
    kept_forms,
    optional,
    pairs,
    plain,
    word,
)
from licorne_server.engine.journal.records import Digest
from licorne_server.wire.features import rows, table


class Again(NamedTuple):
    """An input: the remainder of the command of this RM that the core has begun."""

    rm_id: RmId


@lru_cache(maxsize=16)
def _configuration(text: str | None) -> SubmittedConfig:
    return submitted(text or "")


_CONFIGURATION = Form(
    lambda config: None if config is None else config.text, lambda _: Reading(str | None, _configuration)
)
"""A configuration is written as its text, which a reader parses as the writer did."""


def _by_extension(name: str, columns: Mapping[str, tuple[str, Form]]) -> Row:
    """A mapping of values by extension: the names of columns, and their forms."""

    def pack(found: Mapping[str, Any]) -> list[Any]:
        return [form.pack(found.get(of, {})) for of, (_, form) in columns.items() if form.pack is not None]

    def build(values: Mapping[str, Any]) -> dict[str, Any]:
        found = {of: values.get(column) for of, (column, _) in columns.items()}
        return {of: known for of, known in found.items() if known}

    kind = make_dataclass(name, [column for column, _ in columns.values()])
    return Row(kind, build, pack, **dict(columns.values()))


_MARKS = _by_extension("OperatorMarks", table("MARKS"))
_MEMORY = _by_extension(
    "PartitionMemory",
    {of: (form.name, pairs(form.owner, form.value)) for of, form in kept_forms().items()},
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
    Row(
        UpdateConfiguration,
        rm_id=TEXT,
        policy_group=TEXT,
        config=_CONFIGURATION,
        extra_config=TEXTS,
        replaces_extra=FLAG,
    ),
    Row(RemoveRm, rm_id=TEXT),
    Row(AnswerPredicates, rm_id=TEXT, answers=items(_ANSWER)),
    Row(AnswerPreemptions, rm_id=TEXT, answers=items(_PREEMPTION_ANSWER)),
    Row(NotePredicatesSent, rm_id=TEXT, check=WHOLE),
    Row(BeginReplay, rm_id=TEXT),
    Row(EndReplay, rm_id=TEXT, nodes=WHOLE, applications=WHOLE, allocations=WHOLE),
    Row(SetHold, rm_id=TEXT, hold=word(Hold), on=FLAG),
    Row(RefuseNewWork, shortage=word(MemoryShortage), reason=TEXT),
    *rows("COMMANDS"),
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
"""All kinds of entries after a file's header. The index of a kind in that header is its tag in the file."""

ROWS = {
    row.name: row
    for row in (
        *ENTRIES,
        OPTIONS,
        *(_BACKOFF, _TUNING, _CAPS),
        *(MARK, _MARKS, *rows("RECORDS")),
        *(*chain.from_iterable(form.rows for form in kept_forms().values()), _MEMORY),
        *(_POLICY, _NODE, _USER, _APPLICATION, _REMOVAL, _RELEASE, _ASK),
        *(_REFUSAL, _ANSWER, _PREEMPTION_ANSWER),
    )
}
"""All records by name."""
