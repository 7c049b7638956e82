"""Forms: how values of one type are written as MessagePack, and read again.

A form has the type of the written value, and a reader refuses all other types. A record is written as
an array in the order of its columns. The header of each file names the columns of all records, so that a
journal of a version with fewer fields, or with another order, can be read.

Values of extensions that outlive a partition have forms too, in documents and in the journal (`KeptForm`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from licorne_core.config.schema import QueueConfig
from licorne_core.messages.operators import OperatorMark
from licorne_server.engine.journal.records import Unreadable
from licorne_server.wire.features import table

Convert = Callable[[Any], Any]

Columns = Mapping[str, Sequence[str]]
"""Names of the columns of each record in a file, by the name of the record."""


class Reading(NamedTuple):
    """The type of a written value and the function that converts it; None for no conversion."""

    wire: Any
    make: Convert | None = None


class Form:
    """How values of one type are written and read."""

    def __init__(self, pack: Convert | None, reading: Callable[[Columns], Reading]) -> None:
        """Create a form.

        `pack` converts a value to its written form; None for no conversion. `reading` gives the `Reading`
        for a file with these columns.
        """
        self.pack = pack
        self.reading = reading


def plain(wire: Any) -> Form:
    """The form of values that are written without conversion."""
    return Form(None, lambda _: Reading(wire))


TEXT = plain(str)
WHOLE = plain(int)
NUMBER = plain(float)
FLAG = plain(bool)
TEXTS = plain(dict[str, str])
AMOUNTS = plain(dict[str, int])


MOST_DIGITS = 60
"""Maximum number of digits of a number beyond 64 bits."""


def _large(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise ValueError(f"{text[:MOST_DIGITS]!r} is no whole number from 0 up")
    return int(text)


LARGE = Form(str, lambda _: Reading(str, _large))
"""A non-negative whole number that may have more than 64 bits."""


def word(kind: type[Enum]) -> Form:
    """Members of an enum, written as their values."""
    return plain(kind)


def optional(of: Form) -> Form:
    """A value of a form, or None."""
    pack = of.pack

    def reading(columns: Columns) -> Reading:
        wire, make = of.reading(columns)
        if make is None:
            return Reading(wire | None)
        return Reading(wire | None, lambda value: None if value is None else make(value))

    return Form(pack and (lambda value: None if value is None else pack(value)), reading)


def items(of: Form, collect: Callable[[Iterable[Any]], Any] = tuple) -> Form:
    """Values of one form in order, collected in a tuple or in another collection."""
    pack = of.pack

    def reading(columns: Columns) -> Reading:
        wire, make = of.reading(columns)
        if make is None:
            return Reading(list[wire], collect)  # type: ignore[valid-type]
        return Reading(list[wire], lambda values: collect(map(make, values)))  # type: ignore[valid-type]

    return Form(list if pack is None else (lambda values: list(map(pack, values))), reading)


def pairs(key: Form, value: Form) -> Form:
    """A mapping whose keys or values need conversion."""
    both = items(array(key, value), dict)
    pack = both.pack
    assert pack is not None
    return Form(lambda mapping: pack(mapping.items()), both.reading)


def array(*of: Form) -> Form:
    """A tuple with a fixed number of values, each of its own form."""
    packs = [form.pack for form in of]

    def pack(values: Iterable[Any]) -> list[Any]:
        return [one(value) if one else value for one, value in zip(packs, values, strict=True)]

    return Form(
        pack if any(packs) else tuple, lambda columns: _in_turn([form.reading(columns) for form in of], tuple)
    )


def _in_turn(readings: Sequence[Reading], build: Convert) -> Reading:
    """An array, each value read by its own reading; `build` gets the list of values."""
    makes = [(at, reading.make) for at, reading in enumerate(readings) if reading.make is not None]

    def make(values: Iterable[Any]) -> Any:
        made = list(values)
        for at, one in makes:
            made[at] = one(made[at])
        return build(made)

    return Reading(tuple[tuple(reading.wire for reading in readings)], make)  # type: ignore[misc]


class Row(Form):
    """A class whose objects are written as arrays of their fields."""

    pack: Callable[[Any], Sequence[Any]]

    def __init__(
        self,
        kind: type,
        build: Convert | None = None,
        pack: Callable[[Any], Sequence[Any]] | None = None,
        /,
        **columns: Form,
    ) -> None:
        """Describe a class by its columns.

        Columns are fields, unless `build` makes an object from a mapping of them, and `pack` gives their
        values in order.
        """
        super().__init__(pack or packer({name: form.pack for name, form in columns.items()}), self._reading)
        self.kind = kind
        self.name = kind.__name__
        self.columns = columns
        self._build: Convert = build or (lambda values: kind(**values))

    def _reading(self, columns: Columns) -> Reading:
        names, build = columns.get(self.name, ()), self._build
        for name in names:
            if name not in self.columns:
                raise Unreadable(f"{self.name} has a field that this version does not know: {name[:64]!r}")
        readings = [self.columns[name].reading(columns) for name in names]
        return _in_turn(readings, lambda values: build(dict(zip(names, values, strict=True))))


NAMED = array(TEXT, TEXT)
"""The name of a partition, and that of an object in it."""


def packer(columns: Mapping[str, Convert | None]) -> Callable[[Any], Sequence[Any]]:
    """Make a function that reads the values at these attribute paths of an object, and converts them."""
    inner = [(at, pack) for at, pack in enumerate(columns.values()) if pack is not None]
    get: Callable[[Any], Any] = attrgetter(*columns)
    if len(columns) == 1:
        return lambda value: [pack(get(value)) for _, pack in inner] or [get(value)]
    if not inner:
        return get

    def pack_all(value: Any) -> Sequence[Any]:
        row = list(get(value))
        for at, pack in inner:
            row[at] = pack(row[at])
        return row

    return pack_all


MARK = Row(OperatorMark, by=TEXT, time=NUMBER, message=TEXT)


class KeptForm(NamedTuple):
    """How the retained state of one extension is written in the documents of RMs, and in the journal."""

    name: str
    """Name of the extension's column in the journal, and of its list in documents."""
    owner: Form
    value: Form
    """Form of the value, an object with a `time`; if there are too many values, the latest are written."""
    rows: tuple[Row, ...]
    """Types of the journal's records in owners and values."""
    stored: Row
    """The value in documents: its columns follow the two names of the owner."""
    is_wanted: Callable[[QueueConfig], bool]
    """True if state is retained for a queue with this configuration, or for queues created below it."""
    life: Callable[[Any], float] = lambda _: inf
    """Half-life of a value's weight in seconds: the shorter, the more often it is written."""


def kept_forms() -> dict[str, KeptForm]:
    """The forms by extension; if there are too many entries, the last extension loses entries last."""
    return table("KEPT")
