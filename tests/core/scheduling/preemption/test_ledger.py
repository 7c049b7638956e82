"""The ledger of victims: who was told to stop, why, and when it was gone (spec § 9)."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.ledger import (
    KEPT,
    Ledger,
    PreemptionRecord,
    PreemptionRule,
    QueueNumbers,
)
from licorne_core.values.ids import AllocationKey, AppId, NodeId


def a_queue() -> Queue:
    """A leaf with some of all amounts."""
    queue = Queue("a", Queue("root", None, is_leaf=False, managed=True), is_leaf=True, managed=True)
    queue.guaranteed = {"memory": 5}
    queue.max = {"memory": 20}
    queue.allocated = {"memory": 10}
    queue.preempting = {"memory": 2}
    queue.promised = {"memory": 1}
    return queue


def record(app_id: str, key: str, time: float) -> PreemptionRecord:
    """A victim of the enforcement of a maximum."""
    queue = QueueNumbers.of(a_queue())
    return PreemptionRecord(
        app_id=AppId(app_id),
        key=AllocationKey(key),
        node_id=NodeId("n"),
        resources={"memory": 1},
        priority=0,
        time=time,
        rule=PreemptionRule.QUOTA,
        victim_queue=queue,
        beneficiary_queue=queue,
    )


def names(records: Sequence[PreemptionRecord]) -> list[tuple[str, str, float]]:
    """The victims, and when they were told to stop."""
    return [(record.app_id, record.key, record.time) for record in records]


def test_the_numbers_of_a_queue_stay_those_of_the_moment() -> None:
    """The record of a queue does not follow the queue, which goes on changing."""
    queue = a_queue()
    numbers = QueueNumbers.of(queue)
    for amounts in (queue.allocated, queue.preempting, queue.promised):
        amounts["memory"] = 99
    assert numbers == QueueNumbers.of(a_queue())
    assert numbers.path == "root.a"


def test_a_queue_without_sizes_has_none_in_its_numbers() -> None:
    """No guarantee and no maximum are empty amounts."""
    numbers = QueueNumbers.of(Queue("root", None, is_leaf=True, managed=True))
    assert (numbers.guaranteed, numbers.max) == ({}, {})


def test_the_latest_come_first() -> None:
    """All of them, those of one application, of one key, or of both."""
    ledger = Ledger()
    for time, (app_id, key) in enumerate([("a", "k"), ("b", "k"), ("a", "l"), ("a", "k")]):
        ledger.note(record(app_id, key, float(time)))
    assert names(list(ledger.latest())) == [
        ("a", "k", 3.0),
        ("a", "l", 2.0),
        ("b", "k", 1.0),
        ("a", "k", 0.0),
    ]
    assert names(list(ledger.latest("a"))) == [("a", "k", 3.0), ("a", "l", 2.0), ("a", "k", 0.0)]
    assert names(list(ledger.latest(key="k"))) == [
        ("a", "k", 3.0),
        ("b", "k", 1.0),
        ("a", "k", 0.0),
    ]
    assert names(list(ledger.latest("b", "k"))) == [("b", "k", 1.0)]
    assert names(list(ledger.latest("c"))) == []


def test_a_victim_that_is_gone_has_the_time_at_which_it_went() -> None:
    """Its last record has it; later ends under the same key do not count."""
    ledger = Ledger()
    ledger.note(record("a", "k", 1.0))
    ledger.released(AppId("a"), AllocationKey("k"), 2.0)
    ledger.released(AppId("a"), AllocationKey("k"), 3.0)
    ledger.note(record("a", "k", 4.0))
    assert [found.released_time for found in ledger.latest()] == [0.0, 2.0]
    ledger.released(AppId("a"), AllocationKey("k"), 5.0)
    assert [found.released_time for found in ledger.latest()] == [5.0, 2.0]


def test_the_end_of_an_allocation_that_was_no_victim_is_nothing() -> None:
    """Neither is an application of another name that uses the same key."""
    ledger = Ledger()
    ledger.note(record("a", "k", 1.0))
    ledger.released(AppId("b"), AllocationKey("k"), 2.0)
    assert [found.released_time for found in ledger.latest()] == [0.0]
    assert ledger.find(AppId("b"), AllocationKey("k")) is None


def test_a_ledger_keeps_ten_thousand_records() -> None:
    """One more, and the oldest is forgotten."""
    ledger = Ledger()
    for number in range(KEPT + 1):
        ledger.note(record("a", f"k{number}", float(number)))
    assert len(ledger) == KEPT == 10_000
    assert ledger.find(AppId("a"), AllocationKey("k0")) is None
    assert ledger.find(AppId("a"), AllocationKey("k1")) is not None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("kl"), st.booleans())),
    st.integers(1, 5),
)
def test_a_ledger_is_the_tail_of_all_that_was_noted(steps: list[tuple[str, str, bool]], kept: int) -> None:
    """Whatever is noted and released: the same as a list of which the last ones are kept."""
    ledger = Ledger(kept)
    plain: list[list[object]] = []
    for time, (app_id, key, noted) in enumerate(steps, start=1):
        if noted:
            ledger.note(record(app_id, key, float(time)))
            plain.append([app_id, key, float(time), 0.0])
            plain = plain[-kept:]
        else:
            ledger.released(AppId(app_id), AllocationKey(key), float(time))
            same = [entry for entry in plain if entry[:2] == [app_id, key]]
            if same and not same[-1][3]:
                same[-1][3] = float(time)
        shown = [[r.app_id, r.key, r.time, r.released_time] for r in ledger.latest()]
        assert shown == plain[::-1]
        found = ledger.find(AppId(app_id), AllocationKey(key))
        last = [entry for entry in plain if entry[:2] == [app_id, key]][-1:]
        assert ([] if found is None else [[found.time]]) == [entry[2:3] for entry in last]


def test_a_walk_goes_on_while_records_come_and_go() -> None:
    """What comes is not among the rest, and the rest ends where the oldest were forgotten."""
    ledger = Ledger(3)
    for time in range(3):
        ledger.note(record("a", f"k{time}", float(time)))
    walk = ledger.latest()
    newest = next(walk)
    assert (newest.key, newest.number) == ("k2", 3)
    ledger.note(record("a", "k3", 3.0))
    assert [found.key for found in walk] == ["k1"]
    assert [found.key for found in ledger.latest(before=newest.number)] == ["k1"]
