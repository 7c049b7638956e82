"""Tables of the fields of reports, and forms of reports with other names of fields."""

from types import UnionType
from typing import Any, get_args, get_origin

import pytest

from licorne_core.values.ids import PartitionName
from licorne_core.views.fields import renamed, types_of
from licorne_core.views.queues import QueueReport
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")


def is_of(value: Any, kind: Any) -> bool:
    """True if a value has the type of its field."""
    kind = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    kind = getattr(kind, "__supertype__", kind)
    if not isinstance(kind, UnionType):
        kind = get_origin(kind) or kind
    return isinstance(value, (float, int) if kind is float else kind)


@pytest.fixture
def driver() -> Driver:
    """A core with an application that has an allocation."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=4)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=1)),
    )
    return driver


def test_reports_have_values_of_the_types_in_their_tables(driver: Driver) -> None:
    """Each field in the table of a report exists, and has the type of the table."""
    views = driver.views
    reports: list[Any] = [
        views.partition(DEFAULT),
        views.queue(DEFAULT, "root"),
        views.application(DEFAULT, "one"),
        views.node(DEFAULT, "n1"),
    ]
    for report in reports:
        types = types_of(type(report))
        extended = getattr(report, "extended", {})
        values = {name: extended[name] if name in extended else getattr(report, name) for name in types}
        wrong = {name: value for name, value in values.items() if not is_of(value, types[name])}
        assert not wrong, type(report).__name__


def test_a_report_does_not_change_after_it_was_made(driver: Driver) -> None:
    """Amounts in a report are copies, which do not change with the running totals."""
    before = driver.queue("root").allocated
    assert before == {"vcore": 1}
    driver.do(asks(ask("one", "k2", vcore=1)))
    assert before == {"vcore": 1}


def test_a_form_with_an_unknown_field_is_refused() -> None:
    """A form that renames an unknown field of a report fails when it is defined."""
    with pytest.raises(AttributeError, match="time: QueueReport has no field when"):
        renamed(QueueReport, {"time": "when"}, {}, dict)
