"""Field tables: a report is a class, and each field names where it is read.

A field without a reader is the attribute of its own name; a mapping is copied. Other forms of a
report are renamings of it: the message of `State`, REST, the rows of the page.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar, cast, get_origin, get_type_hints

S = TypeVar("S")
C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")

Moment = Annotated[float, "unix seconds; 0.0 for none"]
Span = Annotated[float, "seconds"]

Unit = Callable[[Any], object]
Source = str | tuple[str, Unit] | Callable[[Any], object]
"""A field or what is inside (``ask.key``), the same in a unit, or a function of the report."""


class Of(Generic[S, C]):
    """The readers of a table, for things of one class, each in its context: mostly its partition."""

    def __call__(self, read: Callable[[S], T]) -> T:
        """A field that is read from the thing."""
        return cast(T, field(metadata={"read": read}))

    def within(self, read: Callable[[S, C], T]) -> T:
        """A field that is read from the thing and its context."""
        return cast(T, field(metadata={"within": read}))

    def table(self, report: type[R]) -> Callable[[S, C], R]:
        """The function that makes a report; a field with a default keeps it."""
        types = types_of(report)
        own: list[tuple[Callable[..., None], Callable[[Any], Any]]] = []
        within: list[tuple[Callable[..., None], Callable[[Any, C], Any]]] = []
        for item in fields(cast(Any, report)):
            put = vars(report)[item.name].__set__  # past the class, which is frozen
            if item.default is not MISSING:
                own.append((put, partial(_given, item.default)))
            elif "within" in item.metadata:
                within.append((put, item.metadata["within"]))
            else:
                get = item.metadata.get("read") or attrgetter(item.name)
                is_amounts = "read" not in item.metadata and get_origin(types[item.name]) is Mapping
                own.append((put, partial(_copied, get) if is_amounts else get))

        def made(thing: S, context: C) -> R:
            new = object.__new__(report)
            for put, get in own:
                put(new, get(thing))
            for put, find in within:
                put(new, find(thing, context))
            return new

        return made


def _given(value: T, _: object) -> T:
    return value


def _copied(get: Callable[[S], Mapping[str, T] | None], thing: S) -> dict[str, T]:
    return dict(get(thing) or {})


def types_of(report: type) -> dict[str, Any]:
    """The types of the fields; None where the class is compiled and does not have it."""
    hints = get_type_hints(report, include_extras=True)
    return {item.name: hints.get(item.name) for item in fields(report)}


def renamed(
    report: type[R],
    names: Mapping[str, Source],
    units: Mapping[Any, Unit],
    optional: frozenset[str] = frozenset(),
) -> Callable[[R], dict[str, Any]]:
    """The function that gives a report under other names, in their order.

    `units` convert by the types of fields. Names in `optional` are left out where there is nothing.

    Raises:
        AttributeError: the report has no such field.
    """
    types = types_of(report)
    read: dict[str, str] = {}
    converted: dict[str, Unit] = {}
    computed: dict[str, Callable[[R], object]] = {}
    for name, source in names.items():
        if callable(source):
            computed[name] = source
            read[name] = next(iter(types))  # keeps the place of the name
            continue
        known, unit = source if isinstance(source, tuple) else (source, None)
        if known.partition(".")[0] not in types:
            raise AttributeError(f"{name}: {report.__name__} has no field {known}")
        read[name] = known
        unit = unit or units.get(types.get(known))
        if unit is not None:
            converted[name] = unit
    get = attrgetter(*read.values())

    def form(item: R) -> dict[str, Any]:
        values = dict(zip(read, get(item), strict=True))
        for name, compute in computed.items():
            values[name] = compute(item)
        for name in optional:
            if not values[name]:
                del values[name]
        for name, unit in converted.items():
            if name in values:
                values[name] = unit(values[name])
        return values

    return form
