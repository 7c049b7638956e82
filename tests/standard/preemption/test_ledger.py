"""Records of victims, and of the losses of leaves (spec § 9)."""

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.ledger.stops import KEPT, Ledger, numbers_of
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.losses import Losses, loss_of
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released


def a_queue() -> Queue:
    """A leaf with a guarantee, a maximum, and allocated, preempting and promised amounts."""
    queue = Queue("a", Queue("root", None, is_leaf=False, managed=True), is_leaf=True, managed=True)
    queue.guaranteed = {"memory": 5}
    queue.max = {"memory": 20}
    queue.allocated = {"memory": 10}
    queue.preempting = {"memory": 2}
    queue.promised = {"memory": 1}
    return queue


def record(app_id: str, key: str, time: float) -> PreemptionRecord:
    """The record of a victim of an enforced maximum."""
    queue = numbers_of(a_queue())
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
    """The applications and keys of victims, each with the time of its stop."""
    return [(record.app_id, record.key, record.time) for record in records]


def test_the_recorded_sizes_of_a_queue_do_not_change() -> None:
    """Later changes of a queue do not change the sizes in a record."""
    queue = a_queue()
    numbers = numbers_of(queue)
    for amounts in (queue.allocated, queue.preempting, queue.promised):
        amounts["memory"] = 99
    assert numbers == numbers_of(a_queue())
    assert numbers.path == "root.a"


def test_a_queue_without_sizes_is_recorded_with_empty_amounts() -> None:
    """A missing guarantee or maximum is recorded as an empty amount."""
    numbers = numbers_of(Queue("root", None, is_leaf=True, managed=True))
    assert (numbers.guaranteed, numbers.max) == ({}, {})


def test_the_latest_records_are_listed_first() -> None:
    """Records are listed latest first, optionally only those of one application, of one key, or of both."""
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


def test_an_ended_victim_has_the_time_of_its_end() -> None:
    """The last record of a key has the time of its first release."""
    ledger = Ledger()
    ledger.note(record("a", "k", 1.0))
    ledger.released(AppId("a"), AllocationKey("k"), 2.0)
    ledger.released(AppId("a"), AllocationKey("k"), 3.0)
    ledger.note(record("a", "k", 4.0))
    assert [found.released_time for found in ledger.latest()] == [0.0, 2.0]
    ledger.released(AppId("a"), AllocationKey("k"), 5.0)
    assert [found.released_time for found in ledger.latest()] == [5.0, 2.0]


def test_releases_of_other_allocations_are_ignored() -> None:
    """A release under the same key in another application does not end a victim."""
    ledger = Ledger()
    ledger.note(record("a", "k", 1.0))
    ledger.released(AppId("b"), AllocationKey("k"), 2.0)
    assert [found.released_time for found in ledger.latest()] == [0.0]
    assert ledger.find(AppId("b"), AllocationKey("k")) is None


def test_a_ledger_keeps_ten_thousand_records() -> None:
    """The record after the ten-thousandth drops the oldest record."""
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
def test_a_ledger_equals_a_list_of_the_last_records(steps: list[tuple[str, str, bool]], kept: int) -> None:
    """After any records and releases the ledger equals a plain list of the latest records."""
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


def test_a_reader_continues_while_records_change() -> None:
    """A reader does not see records that are added later, and ends at the first dropped record."""
    ledger = Ledger(3)
    for time in range(3):
        ledger.note(record("a", f"k{time}", float(time)))
    walk = ledger.latest()
    newest = next(walk)
    assert (newest.key, newest.number) == ("k2", 3)
    ledger.note(record("a", "k3", 3.0))
    assert [found.key for found in walk] == ["k1"]
    assert [found.key for found in ledger.latest(before=newest.number)] == ["k1"]


# Losses


def test_losses_count_for_an_hour() -> None:
    """A loss expires after an hour, and exactly its amount is subtracted."""
    losses, leaf = Losses(), QueuePath("root.b")
    assert losses.next_change(leaf, 0.0) is None
    losses.add(leaf, loss_of((("vcore", 3),), 0.1), 0.0)
    losses.add(leaf, loss_of((("memory", 2), ("vcore", 1)), 2.0), 1000.0)
    assert losses.lost(leaf, 3599.0) == {"vcore": 2300, "memory": 4000}
    assert losses.next_change(leaf, 3599.0) == 3600.0
    assert losses.lost(leaf, 3600.0) == {"vcore": 2000, "memory": 4000}
    assert losses.lost(QueuePath("root.a"), 3600.0) == {}
    assert losses.lost(leaf, 4600.0) == {}
    assert losses.next_change(leaf, 4600.0) is None


def test_losses_of_removed_leaves_expire() -> None:
    """The losses of removed dynamic queues expire after an hour as well."""
    losses, only = Losses(), Losses()
    for number in range(100):
        losses.add(QueuePath(f"root.gone-{number}"), loss_of((("vcore", 1),), 5.0), 1.0)
    for kept in (losses, only):
        kept.add(QueuePath("root.b"), loss_of((("vcore", 1),), 5.0), 3601.0)
    assert len(pickle.dumps(losses)) == len(pickle.dumps(only))


@pytest.mark.parametrize(
    ("properties", "lost"),
    [("", {}), ("preemption.loss.limit: memory=99000", {"memory": 5000})],
    ids=["no limit", "limit"],
)
def test_losses_are_recorded_only_with_a_loss_limit(properties: str, lost: dict[str, int]) -> None:
    """The lost work of a victim is recorded if its leaf has a loss limit."""
    driver = Driver()
    queues = "[{name: rich, properties: {%s}}, {name: poor, resources: {guaranteed: {memory: 1}}}]"
    text = config(queues % properties)
    text = text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")
    driver.do(register(text), nodes(node("n1", memory=1)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(ask("rich", "r", policy="s", memory=1)))
    driver.do(asks(ask("poor", "p", policy="o", memory=1)))
    assert len(released(driver.wait(5))) == 1
    losses = preemption_of(driver.partition.check_context).losses
    assert losses.lost(QueuePath("root.rich"), driver.now) == lost
