"""`licorne nodes`: the nodes of a partition, or one node; `cordon`, `drain` and `uncordon` nodes.

Selectors choose nodes by attributes, in the syntax of kubectl: ``zone=a,kind!=spot,gpu,!old``.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from licorne.v1.admin_pb2 import (
    DrainNodeRequest,
    DrainNodeResponse,
    SetNodeSchedulableRequest,
    SetNodeSchedulableResponse,
)
from licorne.v1.state_pb2 import ListNodesRequest, Node, Reservation
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import rows
from licorne_cli.failures import NotFoundError
from licorne_cli.nouns.noun import Act, Noun, Verb, add_message
from licorne_cli.output.listing import Column, Listing
from licorne_cli.output.marks import drain_text, length, marked_with_reason
from licorne_cli.output.text import NOTHING, counted, human_resources, printable, reason_text, say, shown_time
from licorne_cli.parsing.parser import duration

NO_KEY = " \t()<>"
"""Characters that keys cannot have, so that ``zone in (a,b)`` and ``gpus>2`` are errors, not empty lists."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The required value of an attribute; None for any value."""

    key: str
    value: str | None
    wanted: bool

    def takes(self, attributes: Mapping[str, str]) -> bool:
        """True if the attributes satisfy the requirement."""
        if self.value is None:
            return (self.key in attributes) == self.wanted
        return (attributes.get(self.key) == self.value) == self.wanted


def selector(text: str) -> tuple[Requirement, ...]:
    """Parse a selector; a requirement without a valid key is a usage error."""
    return tuple(_requirement(part) for part in text.split(",") if part.strip())


def _requirement(part: str) -> Requirement:
    key, equals, value = part.strip().partition("=")
    wanted = not key.endswith("!")
    key = key.removesuffix("!").strip()
    if not equals:
        wanted = not key.startswith("!")
        key = key.removeprefix("!").strip()
    if not key or any(sign in key for sign in NO_KEY):
        raise argparse.ArgumentTypeError(f"{part}: KEY=VALUE, KEY!=VALUE, KEY or !KEY was expected")
    return Requirement(key, value.removeprefix("=").strip() if equals else None, wanted)


EXAMPLES = (
    ("licorne nodes", "all nodes of the default partition"),
    ("licorne nodes --sort-by used --reverse", "the fullest first"),
    ("licorne nodes -l zone=a,kind!=spot --schedulable yes", "by their attributes"),
    ("licorne nodes --cordoned", "those that operators keep out, with who and why"),
    ("licorne nodes -w -o wide", "and continue with changes"),
    ("licorne nodes --reserved", "for whom nodes are reserved, and why these wait"),
    ('licorne nodes cordon n1 --message "disk"', "keep new allocations off it"),
    ("licorne nodes drain n1", "and wait until what runs there has ended"),
    ("licorne nodes drain n1 --deadline 10m", "and have it stopped within ten minutes"),
    ("licorne nodes uncordon n1", "let allocations on it again"),
)


def reserved_for(node: Node) -> str:
    """The asks for which the node is reserved, the oldest reservation first: ``shop/k1 shop/k2``."""
    asks = (f"{item.application_id}/{item.allocation_key}" for item in node.reservations)
    more = node.reservation_count - len(node.reservations)
    return " ".join((*asks, *([f"and {more:,} more"] if more > 0 else []))) or NOTHING


def holders(reservations: Sequence[Reservation]) -> str:
    """The queues of the reserved asks."""
    queues = dict.fromkeys(item.queue for item in reservations if item.queue)
    return printable(" ".join(queues)) or NOTHING


def reserved_since(reservations: Sequence[Reservation]) -> str:
    """The time of the oldest reservation."""
    return shown_time(reservations[0].time) if reservations else NOTHING


def why_idle(reservations: Sequence[Reservation]) -> str:
    """The reasons why the asks do not run on the node: ``waits for room on the node, lacks vcore=2``."""
    reasons = dict.fromkeys(reason_text(item.reason) for item in reservations)
    return "; ".join(text for text in reasons if text) or NOTHING


def attributes(found: Mapping[str, str]) -> str:
    """Attributes as text: ``zone=a,kind=spot``."""
    return ",".join(f"{name}={value}" for name, value in sorted(found.items())) or NOTHING


def schedulable(node: Node) -> str:
    """``yes``, ``no``, or ``cordoned`` or ``draining`` if an operator prevents new allocations."""
    if node.drain.remaining:
        return "draining"
    return "cordoned" if node.drained else "yes" if node.schedulable else "no"


NODES = Listing[Node](
    kind="node",
    plural="nodes",
    name="node_id",
    columns=(
        Column("NODE", "node_id", head=True),
        Column("SCHEDULABLE", "", schedulable),
        # The utilization, weighted over the resources.
        Column("USED", "utilization", "{:.0%}".format),
        Column("ALLOCATIONS", "allocation_count"),
        Column("CAPACITY", "capacity", human_resources),
        Column("AVAILABLE", "available", human_resources),
        Column("OCCUPIED", "occupied", human_resources),
        Column("CORDONED", "cordon", marked_with_reason, optional=True),
        Column("DRAIN", "drain", drain_text, optional=True),
        Column("RESERVED FOR", "", reserved_for),
        Column("HOLDER", "reservations", why_idle, wide=True, optional=True),
        Column("HOLDER QUEUE", "reservations", holders, wide=True, optional=True),
        Column("RESERVED", "kept", human_resources, wide=True, optional=True),
        Column("RESERVED SINCE", "reservations", reserved_since, wide=True, optional=True),
        Column("ALLOCATED", "allocated", human_resources, wide=True),
        Column("FOREIGN", "foreign_count", wide=True),
        Column("ATTRIBUTES", "attributes", attributes, wide=True),
        Column("PARTITION", "partition", wide=True),
    ),
)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the filters of the list."""
    add = parser.add_argument
    add(
        "-l",
        "--selector",
        type=selector,
        default=(),
        metavar="KEY=VALUE,…",
        help="only those with these attributes; also KEY!=VALUE, KEY and !KEY",
    )
    add("--schedulable", choices=("yes", "no"), help="only those that are, or are not")
    add("--reserved", action="store_true", help="only those that are kept free for an ask")
    add("--cordoned", action="store_true", help="only those that an operator has cordoned or drained")


def all_nodes(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[Node]:
    """The nodes in the server's order."""
    return rows(stub.ListNodes, ListNodesRequest(partition=partition), "nodes", args.timeout)


def show(stub: StateStub, args: argparse.Namespace, name: str) -> None:
    """Print the list; a short list, such as of one node or of reserved nodes, has all columns."""
    if (args.reserved or name) and args.output == "table":
        args.output = "wide"
    NOUN.print(stub, args, name)


def is_wanted(node: Node, args: argparse.Namespace) -> bool:
    """True if a node passes the filters."""
    return (
        all(requirement.takes(node.attributes) for requirement in args.selector)
        and (args.schedulable is None or node.schedulable == (args.schedulable == "yes"))
        and (not args.reserved or node.reservation_count > 0)
        and (not args.cordoned or node.drained)
    )


def set_schedulable(act: Act, name: str, *, schedulable: bool) -> SetNodeSchedulableResponse:
    """Allow or prevent new allocations on a node."""
    request = SetNodeSchedulableRequest(**act.about, node_id=name, schedulable=schedulable)
    return act.admin.SetNodeSchedulable(request, timeout=act.timeout)


def cordon(act: Act, name: str) -> tuple[SetNodeSchedulableResponse, str]:
    """Prevent new allocations on a node."""
    answer = set_schedulable(act, name, schedulable=False)
    done = "cordoned" if answer.changed else "is cordoned already"
    goes_on = counted(answer.allocations, "allocation")
    go = "goes" if answer.allocations == 1 else "go"
    return answer, f"node {printable(name)} {done}: {goes_on} there {go} on"


def uncordon(act: Act, name: str) -> tuple[SetNodeSchedulableResponse, str]:
    """Allow new allocations on a node again."""
    answer = set_schedulable(act, name, schedulable=True)
    done = "uncordoned" if answer.changed else "is not cordoned"
    return answer, f"node {printable(name)} {done}"


WATCH_SECONDS = 2.0
"""Seconds between two checks of a drain."""


def add_drain_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the pace of stops, the reason, and waiting."""
    stops = parser.add_mutually_exclusive_group()
    stops.add_argument(
        "--deadline",
        type=duration,
        metavar="TIME",
        help="stop allocations evenly over 90s, 10m or 1h30m; without this and --now none is stopped",
    )
    stops.add_argument(
        "--now", dest="deadline", action="store_const", const=0.0, help="stop all allocations at once"
    )
    add_message("why, kept with the node")(parser)
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        help="show progress until nothing is left, one node after the other; so on a terminal by default",
    )


def plan_drain(act: Act, names: Sequence[str]) -> list[str]:
    """A line for each node that will be drained.

    Raises:
        NotFoundError: there is no node with one of the names.
    """
    partition = act.place.partition
    nodes = {node.node_id: node for node in all_nodes(act.state, act.args, partition)}
    for name in names:
        if name not in nodes:
            raise NotFoundError(NOUN.not_found(name, list(nodes.values()), act.args, partition))
    return [planned(nodes[name], act.args.deadline) for name in names]


def planned(node: Node, deadline: float | None) -> str:
    """The line for a node that will be drained."""
    running = counted(node.allocation_count, "allocation")
    if deadline is None:
        what = f"its allocations continue until they end: {running}"
    else:
        within = f"within {length(deadline)}" if deadline else "at once"
        what = f"its RM is asked to stop {within} what runs there: {running}"
        what += ", but not those of asks that require the node"
    instead = "; this replaces its drain" if node.drain.remaining else ""
    return f"node {printable(node.node_id)} is to be cordoned, and {what}{instead}"


def drain(act: Act, name: str) -> tuple[DrainNodeResponse, str]:
    """Cordon a node, then stop its allocations or wait for their ends, and print the progress."""
    seconds = act.args.deadline
    request = DrainNodeRequest(
        **act.about, node_id=name, deadline_seconds=None if seconds is None else math.ceil(seconds)
    )
    answer = act.admin.DrainNode(request, timeout=act.timeout)
    stay = f", {answer.exempt:,} stay" if answer.exempt else ""
    stop = ", none stopped" if seconds is None else " to stop"
    text = f"node {printable(name)} cordoned: {counted(answer.allocations, 'allocation')}{stop}{stay}"
    if sys.stderr.isatty() if act.args.wait is None else act.args.wait:
        say(text)
        text = follow_drain(act, name)
    return answer, text


def follow_drain(act: Act, name: str) -> str:
    """Print the progress of a drain until its end; returns how it has ended."""
    last = ""
    while True:
        listed = all_nodes(act.state, act.args, act.place.partition)
        node = next((node for node in listed if node.node_id == name), None)
        if node is None:
            return f"node {printable(name)} is gone"
        if not node.HasField("drain"):
            return f"node {printable(name)} is drained no more: somebody has uncordoned it"
        if not node.drain.remaining:
            return f"node {printable(name)} is drained"
        text = drain_text(node.drain)
        if text != last:
            say(f"node {printable(name)} draining: {text}")
            last = text
        time.sleep(WATCH_SECONDS)


NOUN = Noun(
    listing=NODES,
    about="only this node",
    items=all_nodes,
    filters=add_filters,
    wanted=is_wanted,
    show=show,
    verbs={
        "cordon": Verb(
            "keep new allocations off nodes", cordon, options=add_message("why, kept with the node")
        ),
        "uncordon": Verb("let them on nodes again, and end drains", uncordon, options=add_message("why")),
        "drain": Verb(
            "cordon nodes until they are empty, and stop what runs there with --deadline or --now",
            drain,
            plan_drain,
            options=add_drain_options,
        ),
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
