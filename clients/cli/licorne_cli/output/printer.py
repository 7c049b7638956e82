"""Prints the items of a listing in the form of `-o`.

With `-w` it reads the list repeatedly, and prints new and changed items, as kubectl does.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic

import grpc

from licorne_cli.connection.channel import UNREACHABLE_CODES
from licorne_cli.failures import NotFoundError
from licorne_cli.output.listing import Column, Listing, T
from licorne_cli.output.text import (
    DATA_FORMS,
    NOTHING,
    Table,
    print_data,
    print_yaml,
    printable,
    say,
    shown_clock,
)

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


def print_listing(
    listing: Listing[T],
    items: Sequence[T],
    args: argparse.Namespace,
    beside: Mapping[str, Any] | None = None,
) -> None:
    """Print all items, sorted. `beside` has further entries of the data."""
    items = listing.ordered(items, args)
    if args.output in DATA_FORMS:
        data = {**(beside or {}), listing.plural: [listing.plain(item) for item in items]}
        print_data(data, args.output)
    else:
        Printer(listing, args.output, headers=not args.no_headers).print(items)
        if not items:
            say(listing.none(args) if listing.none else f"no {listing.kind}s found")


class Printer(Generic[T]):
    """Prints items one after the other: a table grows, and data is a document for each item."""

    def __init__(
        self,
        listing: Listing[T],
        output: str = "table",
        *,
        headers: bool = True,
        events: bool = False,
        times: bool = False,
        widths: Sequence[int] = (),
    ) -> None:
        """`output` is the form; `events` adds a column of changes, and `times` one with the time of the read.

        `widths` are the minimum widths of columns, for later rows.
        """
        self._widths = widths
        self._listing = listing
        self._output = output
        self._headers = headers
        self._events = events
        self._times = times
        self._columns = listing.shown(wide=output == "wide")
        self._table: Table | None = None

    def print(self, items: Iterable[T], event: str = ADDED) -> None:
        """Print more items."""
        if self._output == "name":
            for item in items:
                name = f"{self._listing.kind}/{printable(self._listing.name_of(item))}"
                print(f"{event} {name}" if self._events else name)
        elif self._output in DATA_FORMS:
            for item in items:
                self._print_data(item, event)
        else:
            self._print_rows([row for item in items for row in self._listing.rows(item)], event)
        sys.stdout.flush()

    def _print_data(self, item: T, event: str) -> None:
        data = self._listing.plain(item)
        if self._events:
            data = {"type": event, "object": data}
        if self._output == "json":
            print(json.dumps(data, ensure_ascii=False))
        else:
            print("---")
            print_yaml(data)

    def _print_rows(self, rows: Sequence[object], event: str) -> None:
        if self._table is None:
            columns = [column for column in self._columns if is_shown(column, rows)]
            self._columns = columns
            heads = sum(column.head for column in columns)
            headers = [column.header for column in columns]
            if self._events:
                headers, heads = ["EVENT", *headers], heads + 1
            if self._times:
                headers, heads = ["TIME", *headers], heads + 1
            self._table = Table(headers, heads=heads, with_headers=self._headers, widths=self._widths)
        first = [shown_clock(time.time())] if self._times else []
        first += [event] if self._events else []
        self._table.print([[*first, *(column.cell(row) for column in self._columns)] for row in rows])


def is_shown(column: Column, rows: Sequence[object]) -> bool:
    """True if a column is displayed: an optional column needs a value in some row."""
    return not column.optional or any(column.cell(row) != NOTHING for row in rows)


INTERVAL = 2.0
"""Seconds between two reads of the list."""


def print_or_watch(listing: Listing[T], look: Callable[[], Sequence[T]], args: argparse.Namespace) -> None:
    """Print the items of `look`; with `-w`, print changes until interrupted.

    Raises:
        KeyboardInterrupt: the watch was interrupted.
    """
    if not args.watch:
        print_listing(listing, look(), args)
        return
    printer = Printer(
        listing, args.output, headers=not args.no_headers, events=args.output_watch_events, times=True
    )
    first = look()
    printer.print(listing.ordered(first, args))
    known = {listing.name_of(item): item for item in first}
    while True:
        time.sleep(INTERVAL)
        found = {listing.name_of(item): item for item in look_again(look, args)}
        fresh = [item for name, item in found.items() if name not in known]
        changed = [item for name, item in found.items() if name in known and item != known[name]]
        gone = [item for name, item in known.items() if name not in found]
        printer.print(listing.ordered(fresh, args), ADDED)
        printer.print(listing.ordered(changed, args), MODIFIED)
        if args.output_watch_events:
            printer.print(listing.ordered(gone, args), DELETED)
        else:
            for item in gone:
                say(f"{listing.kind}/{printable(listing.name_of(item))} is gone")
        known = found


def look_again(look: Callable[[], Sequence[T]], args: argparse.Namespace) -> Sequence[T]:
    """The items of the next successful read, because a server may restart, or an RM register again."""
    lost = False
    while True:
        try:
            return look()
        except NotFoundError as error:
            why = str(error)
        except grpc.RpcError as error:
            if error.code() not in {*UNREACHABLE_CODES, grpc.StatusCode.NOT_FOUND}:
                raise
            why = printable(error.details() or error.code().name)
        if not lost:
            say(f"licorne: lost {args.target}: {why}; trying again")
        lost = True
        time.sleep(INTERVAL)
