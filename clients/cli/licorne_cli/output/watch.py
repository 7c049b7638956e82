"""`-w`: lists again and again, and prints what is new or has changed, as kubectl does."""

import argparse
import time
from collections.abc import Callable, Sequence

import grpc

from licorne_cli.connection.channel import UNREACHABLE_CODES
from licorne_cli.connection.failures import NotFoundError
from licorne_cli.output.listing import Listing, R, T
from licorne_cli.output.printer import ADDED, DELETED, MODIFIED, Printer, print_listing
from licorne_cli.output.text import printable, say

INTERVAL = 2.0
"""Seconds between two looks."""


def print_or_watch(listing: Listing[T, R], look: Callable[[], Sequence[T]], args: argparse.Namespace) -> None:
    """Print what `look` finds; with `-w` go on with what changes, until interrupted.

    Raises:
        KeyboardInterrupt: the watch was ended.
    """
    if not args.watch:
        print_listing(listing, look(), args)
        return
    printer = Printer(listing, args.output, headers=not args.no_headers, events=args.output_watch_events)
    first = look()
    printer.print(listing.ordered(first, args))
    known = {listing.name(item): item for item in first}
    while True:
        time.sleep(INTERVAL)
        found = {listing.name(item): item for item in look_again(look, args)}
        fresh = [item for name, item in found.items() if name not in known]
        changed = [item for name, item in found.items() if name in known and item != known[name]]
        gone = [item for name, item in known.items() if name not in found]
        printer.print(listing.ordered(fresh, args), ADDED)
        printer.print(listing.ordered(changed, args), MODIFIED)
        if args.output_watch_events:
            printer.print(listing.ordered(gone, args), DELETED)
        else:
            for item in gone:
                say(f"{listing.kind}/{printable(listing.name(item))} is gone")
        known = found


def look_again(look: Callable[[], Sequence[T]], args: argparse.Namespace) -> Sequence[T]:
    """The items of the next look that works: a server may restart, an RM register anew."""
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
