"""Copies of asks."""

from dataclasses import fields, replace

from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId


def test_a_change_of_class_keeps_all_other_fields() -> None:
    """An ask in another class has equal values in all other fields."""
    before = Ask(
        AllocationKey("key"),
        AppId("app"),
        AskClass.of({"vcore": 1}),
        priority=7,
        create_time=1.5,
        node_id=NodeId("node"),
        partition="default",
        originator=True,
        allow_preempt_self=True,
        allow_preempt_other=True,
        placeholder=True,
        task_group="workers",
        tags={"licorne/runtime": "60"},
        footprint=100,
        read_time=2.5,
    )
    plain = Ask(AllocationKey(""), AppId(""), before.ask_class)
    assert all(
        getattr(before, one.name) != getattr(plain, one.name)
        for one in fields(Ask)
        if one.name != "ask_class"
    )
    other = AskClass.of({"vcore": 1}, runtime=60.0)
    assert before.in_class(other) == replace(before, ask_class=other)
