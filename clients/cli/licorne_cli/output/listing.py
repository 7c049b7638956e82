"""Listings: the columns of a table, its order, and the names of the items.

A command declares one `Listing` and gives its arguments with `add_listing_arguments`. `printer.py`
prints it in every form, and `printer.py` as it changes.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from licorne_cli.output.text import NOTHING, human_resources, to_plain
from licorne_cli.parsing.parser import Offering, did_you_mean

T = TypeVar("T")
R = TypeVar("R")

FORMS = ("table", "wide", "json", "yaml", "name")
MEASURE = "vcore"
"""The resource that is sorted by where none is named."""
OFFERED = (MEASURE, "memory")
"""Resources that completion offers."""


@dataclass(frozen=True)  # slots do not go with a generic class
class Column(Generic[R]):
    """A column of a table.

    `cell` is its text for people, `key` what it is sorted by if that is not the text. `amounts` is
    there for a column of resources, which is sorted by one of them. A `wide` column is shown with
    `-o wide` only, an `optional` one while there is anything in it. Where a table becomes a list,
    `head` columns, which are the first ones, stand in the first line of an item, without headers.
    """

    header: str
    cell: Callable[[R], str]
    key: Callable[[R], Any] | None = None
    amounts: Callable[[R], Mapping[str, int]] | None = None
    wide: bool = False
    optional: bool = False
    head: bool = False

    @property
    def word(self) -> str:
        """Its name on the command line: ``reserved-for``."""
        return self.header.lower().replace(" ", "-")

    def sort_key(self, row: R, resource: str) -> Any:
        """The sort key of a row; `resource` counts for a column of resources."""
        if self.amounts is not None:
            return self.amounts(row).get(resource or MEASURE, 0)
        return self.cell(row) if self.key is None else self.key(row)


def resources(
    header: str,
    amounts: Callable[[R], Mapping[str, int]],
    *,
    wide: bool = False,
    optional: bool = False,
) -> Column[R]:
    """A column of resources in human units."""
    return Column(
        header,
        lambda row: human_resources(amounts(row)),
        amounts=amounts,
        wide=wide,
        optional=optional,
    )


def number(
    header: str, count: Callable[[R], int], *, wide: bool = False, optional: bool = False
) -> Column[R]:
    """A column of whole numbers; an optional one shows a dash for zero."""
    return Column(
        header,
        lambda row: NOTHING if optional and not count(row) else str(count(row)),
        key=count,
        wide=wide,
        optional=optional,
    )


def itself(item: T) -> Iterator[T]:
    """The only row of an item that has one."""
    yield item


@dataclass(frozen=True)  # slots do not go with a generic class
class Listing(Generic[T, R]):
    """A kind of things: what one is called (``node``), and all of them in JSON (``nodes``).

    `rows` makes the rows of an item; most have one, which is the item itself. An item is sorted by
    its first row. `none` says that there are none; by default ``no nodes found`` is said.
    """

    kind: str
    plural: str
    name: Callable[[T], str]
    columns: Sequence[Column[R]]
    rows: Callable[[T], Iterable[R]]
    plain: Callable[[T], Any] = to_plain
    none: Callable[[argparse.Namespace], str] | None = None

    def shown(self, *, wide: bool) -> list[Column[R]]:
        """The columns of a table, or of a wide one."""
        return [column for column in self.columns if wide or not column.wide]

    def column(self, text: str) -> tuple[Column[R], str]:
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
        if dot and found.amounts is None:
            raise argparse.ArgumentTypeError(f"{text}: the column {word} has no resources")
        return found, resource

    @property
    def words(self) -> tuple[str, ...]:
        """The values of `--sort-by`: columns, and of resources those that all clusters have."""
        return tuple(
            word
            for column in self.columns
            for word in (
                column.word,
                *(f"{column.word}.{name}" for name in OFFERED if column.amounts is not None),
            )
        )

    def ordered(self, items: Sequence[T], args: argparse.Namespace) -> Sequence[T]:
        """The items as `--sort-by` and `--reverse` want them; equal ones as they came."""
        if args.sort_by is None:
            return items[::-1] if args.reverse else items
        column, resource = args.sort_by

        def key(item: T) -> Any:
            return column.sort_key(next(iter(self.rows(item))), resource)

        return sorted(items, key=key, reverse=args.reverse)


def add_listing_arguments(
    parser: argparse.ArgumentParser, listing: Listing[T, R], *, watch: bool = True
) -> None:
    """Add how it is printed, sorted and watched; `add_connection_arguments` has to come too."""
    has_amounts = any(column.amounts is not None for column in listing.columns)
    amounts = f"; of resources by {MEASURE}, or by another as COLUMN.RESOURCE" if has_amounts else ""
    group = parser.add_argument_group("output")
    add = group.add_argument
    add("-o", "--output", choices=FORMS, default="table", help="form (%(default)s)")
    add("--no-headers", action="store_true", help="a table without its headers")
    add(
        "--sort-by",
        type=Offering(listing.column, listing.words),
        metavar="COLUMN",
        help=f"by one of {', '.join(column.word for column in listing.columns)}{amounts}",
    )
    add("--reverse", action="store_true", help="the other way round")
    if watch:
        add("-w", "--watch", action="store_true", help="go on with what changes")
        add(
            "--output-watch-events",
            action="store_true",
            help="with -w, say of each whether it was ADDED, MODIFIED or DELETED",
        )


def of_kind(kind: str) -> Callable[[str], str]:
    """The type of an argument that names one: its name, or as `-o name` prints it, ``node/n1``."""

    def read(text: str) -> str:
        return text.removeprefix(f"{kind}/")

    return read
