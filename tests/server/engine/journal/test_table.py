"""The table of the journal: every command, with every field, can be written and read."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import msgspec
import pytest

from licorne_core.config import built_in, submitted
from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets, SetBudgetSlices
from licorne_core.extensions.drains.messages import Cordon, DrainNode, DrainTerms, SetNodeSchedulable
from licorne_core.extensions.fair_memory.messages import KeptUsage, UsageOwner
from licorne_core.extensions.holds.messages import ApplicationMarks, ChangeApplication, HoldApplication
from licorne_core.extensions.hours.messages import KeptHours
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.extensions.queue_stops.messages import SetQueueStopped
from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.messages import commands as c
from licorne_core.messages.effects import Effect
from licorne_core.messages.kept import KeptByPartition
from licorne_core.messages.operators import Marks, OperatorMark
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, RmId, UserGroup
from licorne_core.values.rm_caps import MemoryShortage, RmCaps
from licorne_core.values.slices import Tuning
from licorne_core.values.windows import Window
from licorne_server.engine.journal.codec import Entries, entry, heading, together
from licorne_server.engine.journal.digest import LEFT_OUT, SUMMED
from licorne_server.engine.journal.records import Digest, Header, Unreadable
from licorne_server.engine.journal.table import ENTRIES, ROWS, Again
from support.core.unions import kinds_of

RM, APP, KEY, NODE = RmId("rm-1"), AppId("app-1"), AllocationKey("ask-1"), NodeId("node-1")
PARTITION, QUEUE = PartitionName("[rm-1]default"), QueuePath("root.a")
MARK = OperatorMark("anna", 1700000000.5, "for a while ✓")
TERMS = DrainTerms(start=1.0, deadline=2.5, allocations=3)
BROKEN = submitted("partitions: 7")

MARKS: Marks = {
    "drains": {(PARTITION, NODE): Cordon(mark=MARK, drain=TERMS)},
    "queue_stops": {(PARTITION, QUEUE): MARK},
    "holds": {
        (PARTITION, APP): ApplicationMarks(hold=MARK, change=MARK, priority=-7, queue=QUEUE),
        (PARTITION, AppId("other")): ApplicationMarks(priority=0),
    },
}
MEMORY: KeptByPartition = {
    PARTITION: {
        "fair_memory": {
            UsageOwner(QUEUE, "anna"): KeptUsage(
                3600.0, 1700000000.5, {"vcore": 0.25, "memory": 1e25}, {"vcore": 2000}, {"vcore": 0.125}
            )
        },
        "hours": {(QUEUE, "memory"): KeptHours(1_700_000_000_500_000, 2**90, 2**40, Window.MONTH)},
    }
}
ASK = Ask(
    KEY,
    APP,
    AskClass.of({"memory": 2**63 - 1, "vcore": 100}, NODE, "predicate"),
    priority=-5,
    create_time=1700000000.25,
    node_id=NODE,
    partition="default",
    originator=True,
    allow_preempt_self=True,
    allow_preempt_other=True,
    placeholder=True,
    task_group="workers",
    tags={"licorne/runtime": "60", "": ""},
    footprint=412,
)
APPLICATION = c.NewApplication(
    app_id=APP,
    queue_name="root.a",
    partition="default",
    user=UserGroup("anna", ("staff", "dev")),
    tags={"namespace": "a"},
    execution_timeout=5,
    placeholder_ask={"vcore": 2},
    gang_scheduling_style="Hard",
)
SAMPLES: tuple[Any, ...] = (
    c.RegisterRm(
        rm_id=RM,
        version="1.2",
        policy_group="queues",
        build_info={"version": "9"},
        config=built_in(),
        extra_config={"log.level": "INFO"},
        predicates=c.PredicatePolicy(deadline=1.5, fail_mode=c.FailMode.OPEN, judges_victims=True),
        container_states=False,
        marks=MARKS,
        memory=MEMORY,
    ),
    c.RegisterRm(rm_id=RM, config=BROKEN),
    c.RegisterRm(rm_id=RM),
    c.UpdateConfiguration(
        rm_id=RM, policy_group="queues", config=built_in(), extra_config={"a": "b"}, replaces_extra=True
    ),
    c.RemoveRm(rm_id=RM),
    c.RefuseNewWork(shortage=MemoryShortage.NEW, reason="memory"),
    SetNodeSchedulable(rm_id=RM, partition="default", node_id=NODE, schedulable=True, mark=MARK),
    DrainNode(rm_id=RM, partition="default", node_id=NODE, seconds=60.5, mark=MARK),
    DrainNode(rm_id=RM, partition="default", node_id=NODE, seconds=None),
    StopApplication(rm_id=RM, partition="default", app_id=APP, reason="over"),
    SetQueueStopped(rm_id=RM, partition="default", queue="root.a", stopped=True, mark=MARK),
    c.UpdateNodes(
        rm_id=RM,
        nodes=(
            c.NodeUpdate(
                node_id=NODE,
                action=c.NodeAction.UPDATE,
                partition="default",
                attributes={"zone": "a"},
                capacity={"vcore": 1},
            ),
            c.NodeUpdate(node_id=NODE, action=c.NodeAction.DECOMISSION),
        ),
    ),
    c.UpdateApplications(
        rm_id=RM, new=(APPLICATION,), remove=(c.RemoveApplication(app_id=APP, partition="default"),)
    ),
    c.UpdateAllocations(
        rm_id=RM,
        asks=(ASK, Ask(KEY, APP, AskClass.of({}))),
        releases=(
            c.ReleaseRequest(
                app_id=APP,
                key=KEY,
                termination=c.TerminationType.TIMEOUT,
                partition="default",
                message="late",
            ),
        ),
    ),
    c.AnswerPredicates(
        rm_id=RM, answers=(c.PredicateAnswer(3, (c.NodeRefusal(node_id=NODE, reason="taint"),)),)
    ),
    AnswerNotices(rm_id=RM, answers=(NoticeAnswer(APP, KEY, "default", 2.5),)),
    c.AnswerPreemptions(rm_id=RM, answers=(c.PreemptionAnswer(4, {NODE: -1}),)),
    c.NotePredicatesSent(rm_id=RM, check=9),
    c.BeginReplay(rm_id=RM),
    c.EndReplay(rm_id=RM, nodes=1, applications=2, allocations=3),
    c.SetHold(rm_id=RM, hold=c.Hold.DEFECT, on=True),
    HoldApplication(rm_id=RM, partition="default", app_id=APP, held=True, mark=MARK),
    ChangeApplication(
        rm_id=RM,
        partition="default",
        app_id=APP,
        priority=7,
        reset_priority=True,
        queue="root.b",
        mark=MARK,
    ),
    c.Tick(decisions=16),
    SetBudgets(
        budgets=(
            Budget(
                name="licences/eda",
                limit={"eda": 5},
                members=(BudgetPattern(rm="a*", partition="default", queue="root.*"),),
                slices={RM: {"eda": 2}},
            ),
            Budget(name="licences", limit={}),
        ),
        floating=frozenset({"eda", "sim"}),
    ),
    SetBudgetSlices(budget="licences", slices={RM: {"eda": 2}}),
)
OPTIONS = c.Options(
    default_config=built_in(),
    reservations=False,
    ask_backoff=c.AskBackoff(2.0, 30.5),
    tuning=Tuning(fill_work=7, slice_size=8, timeout_size=9, inspection_time=10.0),
    rm_caps=RmCaps(**{field.name: at for at, field in enumerate(fields(RmCaps))}),
)
HEADER = Header(run=7, version="0.1.0", start=1700000000.5, options=OPTIONS)
NOT_CARRIED = {
    # The columns of its class are written, as `test_ask_classes` verifies.
    (Ask, "ask_class"),
    # No decision depends on the time of its reading.
    (Ask, "read_time"),
}


def names_of(kind: type) -> set[str]:
    """The fields of a dataclass or a named tuple."""
    if is_dataclass(kind):
        return {field.name for field in fields(kind)}
    return set(kind._fields)  # type: ignore[attr-defined]


def read_back(*values: Any) -> list[tuple[float, Any]]:
    """The entries of the sample values, after writing and reading."""
    entries = Entries(heading(HEADER, 1))
    block = together([entry(number / 4, value) for number, value in enumerate(values)])
    return list(entries.of(block))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_command_is_read_as_it_was_written(sample: Any) -> None:
    """A command with all its fields is equal after writing and reading, and so is its time."""
    assert read_back(sample, sample)[1] == (0.25, sample)


def test_every_command_is_in_the_table() -> None:
    """The table, and the samples of this test, have each command of the core."""
    commands = kinds_of(c.Command)
    assert {row.kind for row in ENTRIES} == {*commands, Again, Digest}
    assert {type(sample) for sample in SAMPLES} == commands


def test_every_field_is_in_the_table() -> None:
    """The table has each field of each command, and of every value in a command."""
    for row in ROWS.values():
        carried = set(row.columns) | {name for kind, name in NOT_CARRIED if kind is row.kind}
        own = names_of(row.kind) | ({"resources", "required_node", "predicate"} if row.kind is Ask else set())
        assert carried == own, row.name


def test_samples_have_every_field() -> None:
    """Each field in the table has a value other than its default in some sample."""
    seen = {at for sample in (*SAMPLES, OPTIONS) for at in _set_in(sample)}
    # The state of extensions is a mapping, each column of which is in the sample.
    by_extension = {ROWS[name].kind for name in ("OperatorMarks", "PartitionMemory")}
    kinds = {row.kind for row in ROWS.values()} - {Again, Digest} - by_extension
    assert {(kind, name) for kind in kinds for name in names_of(kind)} - seen == {(Ask, "read_time")}


def _set_in(value: Any) -> Iterator[tuple[type, str]]:
    """The class and name of each field in the value that differs from its default."""
    kind = type(value)
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from (*_set_in(key), *_set_in(one))
    elif any(row.kind is kind for row in ROWS.values()):
        for name in names_of(kind):
            inner = getattr(value, name)
            if inner != _default_of(kind, name):
                yield kind, name
            yield from _set_in(inner)
    elif isinstance(value, tuple):
        for one in value:
            yield from _set_in(one)


def _default_of(kind: type, name: str) -> Any:
    if not is_dataclass(kind):
        return kind._field_defaults.get(name, MISSING)  # type: ignore[attr-defined]
    [field] = [field for field in fields(kind) if field.name == name]
    if field.default_factory is not MISSING:
        return field.default_factory()
    return False if kind is Ask and field.default is MISSING else field.default


@pytest.mark.parametrize("resources", [{}, {"memory": 1}, {"vcore": -1, "gpu": 0}], ids=str)
@pytest.mark.parametrize("required_node", [None, NODE])
@pytest.mark.parametrize("predicate", [None, "", "arm"])
def test_ask_classes(resources: dict[str, int], required_node: NodeId | None, predicate: str | None) -> None:
    """The class of an ask has the same amounts, node and predicate after reading."""
    ask = Ask(KEY, APP, AskClass.of(resources, required_node, predicate))
    [(_, command)] = read_back(c.UpdateAllocations(rm_id=RM, asks=(ask,)))
    made = command.asks[0].ask_class
    assert made == ask.ask_class
    assert made.resources == resources


def test_header_is_read_as_it_was_written() -> None:
    """The header of a file has the options of the core, its time, its version and its number."""
    entries = Entries(heading(HEADER, 3))
    assert (entries.header, entries.segment) == (HEADER, 3)
    bare = replace(HEADER, options=c.Options())
    assert Entries(heading(bare, 1)).header == bare


def heading_with(entries: list[str], **columns: list[str]) -> Entries:
    """The contents of a file whose header names these entries and columns."""
    written = msgspec.msgpack.decode(heading(HEADER, 1))
    written["entries"] = entries
    written["columns"] |= columns
    return Entries(msgspec.msgpack.encode(written))


def test_fields_unknown_to_the_writer_get_defaults() -> None:
    """A field that the writer did not have gets its default; the others are in the writer's order."""
    entries = heading_with(["SetHold", "Tick"], SetHold=["on", "rm_id", "hold"], Tick=[])
    block = msgspec.msgpack.encode([[1, 2.0], [0, 3.0, True, "rm-1", "internal error"]])
    assert list(entries.of(block)) == [
        (2.0, c.Tick()),
        (3.0, c.SetHold(rm_id=RM, hold=c.Hold.DEFECT, on=True)),
    ]


@pytest.mark.parametrize(
    ("entries", "columns", "reason"),
    [
        (
            ["Tick"],
            {"Tick": ["decisions", "luck"]},
            "Tick has a field that this version does not know: 'luck'",
        ),
        (["Tick", "Sing"], {}, "it has a command that this version does not know: 'Sing'"),
        (["Tick", "Tick"], {}, "it names no command, or one twice"),
        ([], {}, "it names no command, or one twice"),
    ],
)
def test_unknown_headers_are_refused(entries: list[str], columns: dict[str, list[str]], reason: str) -> None:
    """A header with contents unknown to this version is refused, and the reason names them."""
    with pytest.raises(Unreadable, match=reason):
        heading_with(entries, **columns)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgspec.msgpack.encode([[0, 1.0, "rm-1"]]),
        msgspec.msgpack.encode([[0, 1.0, "rm-1", "no such hold"]]),
        msgspec.msgpack.encode([[0, 1.0, "rm-1", "internal error", 5]]),
        msgspec.msgpack.encode([[1, 1.0]]),
        msgspec.msgpack.encode([[0, "now", "rm-1", "internal error"]]),
        b"\x91\x94\x00\x01\xa1\xff\xa8draining",
    ],
    ids=repr,
)
def test_damaged_blocks_are_refused(block: bytes) -> None:
    """A block that is cut, nested without end, or lacks a part of a command is refused."""
    entries = heading_with(["SetHold"], SetHold=["rm_id", "hold"])
    with pytest.raises(Unreadable):
        list(entries.of(block))


def test_every_effect_is_digested_or_excluded() -> None:
    """The digest covers every effect of the core, except those that are listed as deciding nothing."""
    assert SUMMED.keys() | LEFT_OUT == kinds_of(Effect)
    assert not SUMMED.keys() & LEFT_OUT
