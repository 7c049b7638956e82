"""Field tables: a report is a class, and each of its fields has a source.

The default source is the attribute of the same name; a mapping is copied. All other forms of a report
(messages of `State`, REST, rows of the page) rename its fields.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast, get_origin, get_type_hints

from licorne_core.features import modules

S = TypeVar("S")
C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")

Moment = Annotated[float, "unix seconds; 0.0 for none"]
Span = Annotated[float, "seconds"]
Share = Annotated[float, "part of what is due; inf without end"]

Unit = Callable[[Any], object]
Source = str | tuple[str, Unit] | Callable[[Any], object]
"""A field, or an attribute of a field (``ask.key``), possibly converted; or a function of the report."""


class Added(NamedTuple):
    """A field that an extension adds to a report; `read` takes the extension and the object."""

    name: str
    type: Any
    read: Callable[..., object]
    of_time: bool = False
    """True if the field depends on the time of the report; `read` then also gets it, in unix seconds."""


def _of_features(table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tables of this name in the `reports.py` of features, each with the name of its feature."""
    for name, module in modules("reports"):
        yield name, getattr(module, table, {})


def lists() -> Mapping[str, Callable[..., Iterator[Any]]]:
    """The lists that features report about a partition, by name; in a list a None marks a possible pause."""
    return {name: make for _, made in _of_features("LISTS") for name, make in made.items()}


class Of(Generic[S, C]):
    """Sources of a table for objects of class S, each with a context C, which is usually its partition."""

    def __call__(self, read: Callable[[S], T]) -> T:
        """A field that is read from the object by `read`."""
        return cast(T, field(metadata={"read": ("thing", read)}))

    def added(
        self, report: str, points: Callable[[S, C], Any], now: Callable[[C], float] | None = None
    ) -> Mapping[str, Any]:
        """The value of the field `extended`: the fields added by features in their `reports.py`."""

        @cache
        def those() -> list[tuple[str, Added]]:
            # Looked up on first use: a module of reports may be imported before this one.
            return [(name, each) for name, some in _of_features("FIELDS") for each in some.get(report, ())]

        def read(thing: S, context: C) -> Mapping[str, object]:
            named = points(thing, context).named
            at = () if now is None else (now(context),)
            return {
                item.name: item.read(named(name), thing, *(at if item.of_time else ()))
                for name, item in those()
            }

        def types() -> Mapping[str, Any]:
            return {item.name: item.type for _, item in those()}

        return cast(Mapping[str, Any], field(metadata={"read": ("thing, context", read), "added": types}))

    def within(self, read: Callable[[S, C], T]) -> T:
        """A field that `read` reads from the object and its context."""
        return cast(T, field(metadata={"read": ("thing, context", read)}))

    def table(self, report: type[R]) -> Callable[[S, C], R]:
        """The function that makes a report; a field without a source has its default."""
        types = get_type_hints(report, include_extras=True)
        known: dict[str, Any] = {"report": report, "new_of": object.__new__}
        lines = ["new = new_of(report)"]
        for item in fields(cast(Any, report)):
            name = item.name
            known[f"put_{name}"] = vars(report)[name].__set__  # bypasses the class, which is frozen
            known[f"read_{name}"] = item.default
            value = f"thing.{name}"
            if item.default is not MISSING:
                value = f"read_{name}"
            elif item.metadata:
                arguments, known[f"read_{name}"] = item.metadata["read"]
                value = f"read_{name}({arguments})"
            elif get_origin(types.get(name)) is Mapping:
                value = f"dict({value} or ())"
            lines.append(f"put_{name}(new, {value})")
        return cast(Callable[[S, C], R], _made("thing, context", [*lines, "return new"], known))


def _made(arguments: str, lines: list[str], known: dict[str, Any]) -> Any:
    """Compile a function from these lines: a loop over the fields would take up to a third longer."""
    exec("\n    ".join([f"def made({arguments}):", *lines]), known)
    return known["made"]


def types_of(report: type) -> dict[str, Any]:
    """The types of the fields, including those of features; None if a compiled class has no types."""
    hints = get_type_hints(report, include_extras=True)
    found: dict[str, Any] = {}
    for item in fields(report):
        added = item.metadata.get("added")
        found |= added() if added else {item.name: hints.get(item.name)}
    return found


def renamed(
    report: type[R],
    names: Mapping[str, Source],
    units: Mapping[Any, Unit],
    make: Callable[..., T],
    optional: Sequence[str] = (),
) -> Callable[[R], T]:
    """A function that passes the fields of a report to `make` under other names.

    `units` has conversions by types of fields. Fields with names in `optional` are left out if empty.

    Raises:
        AttributeError: the report has no such field.
    """
    types, own = types_of(report), {item.name for item in fields(cast(Any, report))}
    known: dict[str, Any] = {"make": make}
    parts: list[str] = []
    for name, source in names.items():
        if callable(source):
            known[f"of_{name}"] = source
            parts.append(f"{name}=of_{name}(item),")
            continue
        read, unit = source if isinstance(source, tuple) else (source, None)
        if read.partition(".")[0] not in types:
            raise AttributeError(f"{name}: {report.__name__} has no field {read}")
        known[f"of_{name}"] = unit = unit or units.get(types.get(read))
        place = f"item.{read}" if read.partition(".")[0] in own else f"item.extended[{read!r}]"
        value = f"of_{name}({place})" if unit else place
        there = f"**(dict({name}={value}) if {place} else {{}}),"
        parts.append(there if name in optional else f"{name}={value},")
    return cast(Callable[[R], T], _made("item", ["return make(", *parts, ")"], known))
