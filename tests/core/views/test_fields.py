"""Field tables: reports that are read by them, and other forms that rename them."""

from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin

import pytest

from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import Resources
from licorne_core.views.fields import Moment, renamed, types_of
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")


@dataclass
class Point:
    """A report of two fields."""

    at: Moment
    size: Resources


def is_of(value: Any, kind: Any) -> bool:
    """True if a value is of the type of its field, as far as that names a class."""
    kind = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    kind = getattr(kind, "__supertype__", kind)
    if not isinstance(kind, UnionType):
        kind = get_origin(kind) or kind
    return isinstance(value, (float, int) if kind is float else kind)


@pytest.fixture
def driver() -> Driver:
    """An application with an allocation."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=4)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=1)),
    )
    return driver


def test_reports_have_values_of_the_types_of_their_tables(driver: Driver) -> None:
    """A field that is read by its name alone is there, and of the type that the table says."""
    views = driver.views
    reports: list[Any] = [
        views.partition(DEFAULT),
        views.queue(DEFAULT, "root"),
        views.application(DEFAULT, "one"),
        views.node(DEFAULT, "n1"),
    ]
    for report in reports:
        types = types_of(type(report))
        values = {name: getattr(report, name) for name in types}
        wrong = {name: value for name, value in values.items() if not is_of(value, types[name])}
        assert not wrong, type(report).__name__


def test_amounts_of_a_report_stay_as_they_were(driver: Driver) -> None:
    """A report is of its moment: it has copies of the running totals."""
    before = driver.views.queue(DEFAULT, "root").allocated
    assert before == {"vcore": 1}
    driver.do(asks(ask("one", "k2", vcore=1)))
    assert before == {"vcore": 1}


def test_a_form_has_its_names_in_their_order_and_units() -> None:
    """Fields, fields in units of their own, and functions of the report."""
    form: Callable[[Point], dict[str, object]] = renamed(
        Point,
        {
            "sum": lambda point: sum(point.size.values()),
            "time": "at",
            "ms": ("at", lambda at: at * 1e3),
        },
        {Moment: int},
        dict,
    )
    assert list(form(Point(1.5, {"vcore": 2, "memory": 3})).items()) == [
        ("sum", 5),
        ("time", 1),
        ("ms", 1500.0),
    ]


def test_what_is_optional_is_left_out_where_there_is_nothing() -> None:
    """A time of zero is none; what is not optional is shown all the same."""
    form: Callable[[Point], dict[str, object]] = renamed(
        Point, {"a": "at", "b": "at"}, {Moment: int}, dict, ("a",)
    )
    assert form(Point(0.0, {})) == {"b": 0}


def test_a_name_without_a_field_is_refused() -> None:
    """A form that names a field which the report has not fails when it is made."""
    with pytest.raises(AttributeError, match="time: Point has no field when"):
        renamed(Point, {"time": "when"}, {}, dict)
