"""Listings: the columns of a table, each with its field and its text, and the order of rows.

A command declares a `Listing` and adds its arguments with `add_listing_arguments`. `printer.py` prints it
in every form, once or as it changes.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from licorne_cli.output.text import NOTHING, human_resources, to_plain
from licorne_cli.parsing.parser import Offering, did_you_mean

T = TypeVar("T")

FORMS = ("table", "wide", "json", "yaml", "name")
MEASURE = "vcore"
"""The resource by which amounts are sorted if none is named."""
OFFERED = (MEASURE, "memory")
"""Resources that completion suggests."""


def text(value: object) -> str:
    """A name or a number as text; a dash for an empty one."""
    return str(value) or NOTHING


def either(yes: str, no: str) -> Callable[[object], str]:
    """A function that returns `yes` for true values and `no` for all others."""
    return lambda value: yes if value else no


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    `field` is the name of a field (``usage.name`` for a nested one), or a function of the row; empty for the
    row itself. `shown` makes the text for people. `key` makes the sort key; without it numbers are sorted by
    value, amounts by one of the resources, and all other values by their texts. A `wide` column is shown only
    with `-o wide`, and an `optional` one only if it is not empty.
    """

    header: str
    field: str | Callable[[Any], Any]
    shown: Callable[[Any], str] = text
    key: Callable[[Any], Any] | None = None
    wide: bool = False
    optional: bool = False
    head: bool = False

    @property
    def word(self) -> str:
        """The name of the column on the command line: ``reserved-for``."""
        return self.header.lower().replace(" ", "-")

    @property
    def has_amounts(self) -> bool:
        """True for a column of resources, which is sorted by one resource."""
        return self.shown is human_resources

    def value(self, row: object) -> Any:
        """The value of the column in a row."""
        if not isinstance(self.field, str):
            return self.field(row)
        return attrgetter(self.field)(row) if self.field else row

    def cell(self, row: object) -> str:
        """The text of the column in a row."""
        return self.shown(self.value(row))

    def sort_key(self, row: object, resource: str) -> Any:
        """The sort key of a row; `resource` is used only for a column of resources."""
        value = self.value(row)
        if self.has_amounts:
            return value.get(resource or MEASURE, 0)
        if self.key is not None:
            return self.key(value)
        return value if type(value) in (int, float) else self.shown(value)


def itself(item: T) -> Iterator[T]:
    """The item as the only row."""
    yield item


@dataclass(frozen=True)  # a generic class cannot have slots
class Listing(Generic[T]):
    """A kind of items: the singular (``node``), and the key of the list in JSON (``nodes``).

    `name` is the field with the name of an item, or a function of the item. `rows` makes the rows of an item,
    by default the item itself. An item is sorted by its first row. `none` is the message for an empty list,
    by default ``no nodes found``.
    """

    kind: str
    plural: str
    name: str | Callable[[T], str]
    columns: Sequence[Column]
    rows: Callable[[T], Iterable[Any]] = itself
    plain: Callable[[T], Any] = to_plain
    none: Callable[[argparse.Namespace], str] | None = None

    def name_of(self, item: T) -> str:
        """The name of an item."""
        return str((attrgetter(self.name) if isinstance(self.name, str) else self.name)(item))

    def shown(self, *, wide: bool) -> list[Column]:
        """The columns of a table, or of a wide table."""
        return [column for column in self.columns if wide or not column.wide]

    def column(self, text: str) -> tuple[Column, str]:
        """The column in ``COLUMN`` or ``COLUMN.RESOURCE``, and the resource.

        Raises:
            ArgumentTypeError: there is no such column, or it has no resources.
        """
        word, dot, resource = text.lower().partition(".")
        found = next((column for column in self.columns if column.word == word), None)
        if found is None:
            known = [column.word for column in self.columns]
            meant = did_you_mean(word, known)
            raise argparse.ArgumentTypeError(
                f"{text} is no column{meant or ';'} there are {', '.join(known)}"
            )
        if dot and not found.has_amounts:
            raise argparse.ArgumentTypeError(f"{text}: the column {word} has no resources")
        return found, resource

    @property
    def words(self) -> tuple[str, ...]:
        """Completions of `--sort-by`: columns, with those resources that all clusters have."""
        return tuple(
            word
            for column in self.columns
            for word in (
                column.word,
                *(f"{column.word}.{name}" for name in OFFERED if column.has_amounts),
            )
        )

    def ordered(self, items: Sequence[T], args: argparse.Namespace) -> Sequence[T]:
        """The items in the order of `--sort-by` and `--reverse`; the sort is stable."""
        if args.sort_by is None:
            return items[::-1] if args.reverse else items
        column, resource = args.sort_by

        def key(item: T) -> Any:
            return column.sort_key(next(iter(self.rows(item))), resource)

        return sorted(items, key=key, reverse=args.reverse)


def add_listing_arguments(
    parser: argparse.ArgumentParser,
    listing: Listing[Any],
    *,
    watch: bool = True,
    forms: Sequence[str] = (),
) -> None:
    """Add the options to print, sort and watch; `add_connection_arguments` is needed as well."""
    has_amounts = any(column.has_amounts for column in listing.columns)
    amounts = f"; of resources by {MEASURE}, or by another as COLUMN.RESOURCE" if has_amounts else ""
    group = parser.add_argument_group("output")
    add = group.add_argument
    add("-o", "--output", choices=(*FORMS, *forms), default="table", help="form (%(default)s)")
    add("--no-headers", action="store_true", help="a table without its headers")
    add(
        "--sort-by",
        type=Offering(listing.column, listing.words),
        metavar="COLUMN",
        help=f"by one of {', '.join(column.word for column in listing.columns)}{amounts}",
    )
    add("--reverse", action="store_true", help="the other way round")
    if watch:
        add("-w", "--watch", action="store_true", help="continue with changes")
        add(
            "--output-watch-events",
            action="store_true",
            help="with -w, say of each whether it was ADDED, MODIFIED or DELETED",
        )


def of_kind(kind: str) -> Callable[[str], str]:
    """The argument type of an item's name: plain, or as `-o name` prints it (``node/n1``)."""

    def read(text: str) -> str:
        return text.removeprefix(f"{kind}/")

    return read
