"""`licorne status`: an overview for an operator on call, on one screen."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import grpc

from licorne.v1.state_pb2 import Finding, Node, OperatorMark
from licorne_cli.connection.channel import add_connection_arguments, served
from licorne_cli.failures import NEEDS_LOOK, OK
from licorne_cli.nouns.reasons import first_of, in_one_line, never_of
from licorne_cli.nouns.status_facts import Change, Facts, Of, gathered
from licorne_cli.output.marks import age, drain_text
from licorne_cli.output.printer import INTERVAL
from licorne_cli.output.text import (
    DATA_FORMS,
    counted,
    folded,
    is_terminal,
    print_data,
    print_segments,
    printable,
    shown_clock,
    shown_time,
    terminal_width,
    to_plain,
)
from licorne_cli.parsing.parser import Command, argument

NAMED = 3
"""Maximum number of items named in one line; further items are counted."""


LOOK_AT = {
    "member": "licorne members",
    "rm": "licorne rms",
    "subscriber": "licorne rms",
    "scheduling": "licorne rms",
    "queue": "licorne queues --pending",
    "budgets": "licorne budgets",
    "configuration": "licorne config history",
    "rejections": "licorne events",
}
"""By concern: the command that shows more about it."""


class Line(NamedTuple):
    """A line of the screen: its name, its text, and the command that shows more."""

    name: str
    text: str
    command: str = ""


def lines_of(facts: Facts) -> list[Line]:
    """All lines of the screen, without empty ones."""
    never, health = never_of(facts.reasons), facts.health
    asks = facts.reasons.asks - never.asks
    found = [
        Line("verdict", f"{health.severity} ({health.scope}, at {shown_clock(health.time / 1e9)})"),
        *(Line(one.concern, finding_text(one), LOOK_AT.get(one.concern, "")) for one in health.findings),
        Line("version", server_text(facts)),
        Line("members", members_text(facts), "licorne members"),
        Line("rms", rms_text(facts), "licorne rms"),
        Line(
            "waiting",
            f"{counted(asks, 'ask')}: {in_one_line(facts.reasons)}" if asks else "nothing",
            "licorne explain",
        ),
        Line(
            "never",
            f"{counted(never.asks, 'ask')} can never start (first: {first_of(never)})" if never.asks else "",
            "licorne apps --reason NEVER_FITS",
        ),
        Line(
            "stopped",
            named(facts.stopped, lambda of: mark_text(of.name, of.item.stop)),
            "licorne queues start",
        ),
        Line("nodes", nodes_text(facts), f"licorne nodes{' --cordoned' if facts.out else ''}"),
        Line("held", named(facts.held, lambda of: mark_text(of.name, of.item.hold)), "licorne apps resume"),
        *(Line("changed", change_text(one)) for one in facts.changes),
    ]
    if facts.is_cut:
        found.append(Line("note", "there are more queues, nodes or applications than were read"))
    return [line for line in found if line.text]


def finding_text(one: Finding) -> str:
    """The sentence of a finding, with its time and the member that reports it."""
    since = f", since {shown_clock(one.since / 1e9)} ({age(one.since)})" if one.since else ""
    return printable(f"{f'{one.member}: ' if one.member else ''}{one.text}{since}")


def server_text(facts: Facts) -> str:
    """Version and start of the server."""
    about = facts.server
    return printable(f"licorne {about.version} ({about.form}), up since {shown_time(about.started_time)}")


def members_text(facts: Facts) -> str:
    """The members by state; empty for a server without other members."""
    bad = [f"{one.name} is {one.state}" for one in facts.members if one.state != "active"]
    return printable(", ".join([_count(len(facts.members), "member"), *bad])) if facts.members else ""


def rms_text(facts: Facts) -> str:
    """The number of connected RMs, and of all RMs."""
    return f"{sum(rm.connected for rm in facts.rms):,} of {len(facts.rms):,} connected"


def nodes_text(facts: Facts) -> str:
    """Numbers of all nodes, of nodes that are not schedulable, and of reserved nodes."""
    out = named(facts.out, lambda of: node_text(of.item))
    parts = [_count(facts.nodes, "node"), f"{facts.reserved:,} reserved" if facts.reserved else "", out]
    return "; ".join(filter(None, parts))


def node_text(node: Node) -> str:
    """The text for a node that accepts no new allocations."""
    if not node.HasField("cordon"):
        return f"{node.node_id} is not schedulable"
    drain = f", drain {drain_text(node.drain)}" if node.HasField("drain") else ""
    return mark_text(f"{node.node_id} cordoned", node.cordon) + drain


def mark_text(name: str, mark: OperatorMark) -> str:
    """``n1 by ann, 2h ago: disk``."""
    who = f" by {mark.by}" if mark.by else ""
    when = f", {age(mark.time)} ago" if mark.time else ""
    return f"{name}{who}{when}{f': {mark.message}' if mark.message else ''}"


def change_text(change: Change) -> str:
    """An operator's act, with its time and reason."""
    by = f" by {change.by}" if change.by else ""
    why = f": {change.message}" if change.message else ""
    return printable(f"{shown_time(change.time)} {change.what}{by}{why}")


def named(found: Sequence[Of], shown: Callable[[Of], str]) -> str:
    """The first of these items, and the number of the others; empty if there are none."""
    if not found:
        return ""
    more = [f"{len(found) - NAMED:,} more"] if len(found) > NAMED else []
    return printable("; ".join([*map(shown, found[:NAMED]), *more]))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def plain(facts: Facts) -> dict[str, Any]:
    """The facts as data; of queues, nodes and applications, only the displayed items."""

    def rows(found: Iterable[Of]) -> list[dict[str, Any]]:
        return [{"partition": of.partition, **to_plain(of.item)} for of in found]

    return {
        "needsLook": facts.needs_look,
        "health": to_plain(facts.health),
        "server": to_plain(facts.server),
        "members": list(map(to_plain, facts.members)),
        "rms": list(map(to_plain, facts.rms)),
        "partitions": list(map(to_plain, facts.partitions)),
        "stopped": rows(facts.stopped),
        "nodes": facts.nodes,
        "reservedNodes": facts.reserved,
        "outNodes": rows(facts.out),
        "held": rows(facts.held),
        "reasons": to_plain(facts.reasons),
        "changes": [change._asdict() for change in facts.changes],
        "isCut": facts.is_cut,
    }


def show(channel: grpc.Channel, args: argparse.Namespace) -> int:
    """Print the screen; with `-w` print it again whenever it has changed, until interrupted."""
    before: list[Line] | None = None
    while True:
        facts = gathered(channel, args)
        lines = lines_of(facts)
        if lines != before:
            print_screen(facts, lines, args, again=before is not None)
        before = lines
        if not args.watch:
            return NEEDS_LOOK if facts.needs_look else OK
        time.sleep(INTERVAL)


def print_screen(facts: Facts, lines: Sequence[Line], args: argparse.Namespace, *, again: bool) -> None:
    """Print one screen."""
    if args.output in DATA_FORMS:
        print_data(plain(facts), args.output)
    else:
        if again:
            print()
        counting = sum(one.severity != "ok" for one in facts.health.findings)
        print_segments(list(laid_out(lines, 1 + counting if counting else 0)))
    sys.stdout.flush()


def laid_out(lines: Sequence[Line], bad: int) -> Iterator[list[tuple[str, str]]]:
    """Each line with its command in parentheses; on a terminal, long lines are broken and indented.

    The first `bad` lines are marked.
    """
    names = max(len(line.name) for line in lines)
    margin = len("!  ") + names + len("  ")
    width = max(1, terminal_width() - margin) if is_terminal(sys.stdout) else sys.maxsize
    for number, line in enumerate(lines):
        first, *more = folded(f"{line.text} ({line.command})" if line.command else line.text, width, width)
        mark = "!" if number < bad else " "
        yield [(f"{mark}  ", "bold red"), (f"{line.name:<{names}}  ", "bold"), (first, "")]
        yield from ([(" " * margin, ""), (piece, "")] for piece in more)


STATUS = Command(
    (
        argument("-w", "--watch", action="store_true", help="go on, and print what has changed"),
        lambda parser: add_connection_arguments(parser, partition=False),
    ),
    served(show),
    (
        ("licorne status", "what is there, what waits and why, what operators did"),
        ("licorne status -o json", "for programs; needsLook names what is not well"),
    ),
    notes="Exit code 6: something needs a look, marked by !.",
)
