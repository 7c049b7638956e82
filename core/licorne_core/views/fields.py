"""Field tables: a report is a class, and each of its fields has a source.

The default source is the attribute of the same name; a mapping is copied. All other forms of a report
are renamings: messages of `State`, REST, the rows of the page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from typing import Annotated, Any, Generic, TypeVar, cast, get_origin, get_type_hints

S = TypeVar("S")
C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")

Moment = Annotated[float, "unix seconds; 0.0 for none"]
Span = Annotated[float, "seconds"]

Unit = Callable[[Any], object]
Source = str | tuple[str, Unit] | Callable[[Any], object]
"""A field or an attribute of one (``ask.key``), alone or with a conversion; or a function of the report."""


class Of(Generic[S, C]):
    """Sources of a table for objects of class S, each with a context C: mostly its partition."""

    def __call__(self, read: Callable[[S], T]) -> T:
        """A field that is read from the object."""
        return cast(T, field(metadata={"thing": read}))

    def within(self, read: Callable[[S, C], T]) -> T:
        """A field that is read from the object and its context."""
        return cast(T, field(metadata={"thing, context": read}))

    def table(self, report: type[R]) -> Callable[[S, C], R]:
        """The function that makes a report; a field with a default has the default."""
        types = types_of(report)
        known: dict[str, Any] = {"report": report, "new_of": object.__new__}
        lines = ["new = new_of(report)"]
        for item in fields(cast(Any, report)):
            name = item.name
            known[f"put_{name}"] = vars(report)[name].__set__  # past the class, which is frozen
            known[f"read_{name}"] = item.default
            value = f"thing.{name}"
            if item.default is not MISSING:
                value = f"read_{name}"
            elif item.metadata:
                ((arguments, known[f"read_{name}"]),) = item.metadata.items()
                value = f"read_{name}({arguments})"
            elif get_origin(types[name]) is Mapping:
                value = f"dict({value} or ())"
            lines.append(f"put_{name}(new, {value})")
        return cast(Callable[[S, C], R], _made("thing, context", [*lines, "return new"], known))


def _made(arguments: str, lines: list[str], known: dict[str, Any]) -> Any:
    """Compile a function of these lines: a loop over the fields takes up to a third longer."""
    exec("\n    ".join([f"def made({arguments}):", *lines]), known)
    return known["made"]


def types_of(report: type) -> dict[str, Any]:
    """Types of the fields; None where a compiled class lacks them."""
    hints = get_type_hints(report, include_extras=True)
    return {item.name: hints.get(item.name) for item in fields(report)}


def renamed(
    report: type[R],
    names: Mapping[str, Source],
    units: Mapping[Any, Unit],
    make: Callable[..., T],
    optional: Sequence[str] = (),
) -> Callable[[R], T]:
    """The function that gives a report to `make` under other names.

    `units` has conversions by types of fields. Names in `optional` are left out for empty values.

    Raises:
        AttributeError: the report has no such field.
    """
    types = types_of(report)
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
        value = f"of_{name}(item.{read})" if unit else f"item.{read}"
        there = f"**(dict({name}={value}) if item.{read} else {{}}),"
        parts.append(there if name in optional else f"{name}={value},")
    return cast(Callable[[R], T], _made("item", ["return make(", *parts, ")"], known))
