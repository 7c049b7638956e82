"""The arguments of `serve` about RMs: how much they may have, and how long they are remembered."""

import argparse

from licorne_cli.parsing.parser import size
from licorne_core.values.rm_caps import RmCaps
from licorne_server.process.bounds import EventBounds, RmBounds
from licorne_server.process.memory import USUAL_PERCENT, System

_USUAL = RmBounds()
_CAPS = {
    "partitions": "partitions of one RM",
    "queues": "queues of one RM, in all its partitions",
    "nodes": "nodes of one RM",
    "applications": "applications of one RM",
    "asks": "asks and allocations of one RM together, foreign ones too",
    "ended": "applications of one RM that are over and can still be seen; the oldest is dropped",
}
"""Counts of each RM, by the name of the cap."""


def add_rm_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the bounds."""
    add = parser.add_argument
    add(
        "--max-rms",
        type=int,
        default=_USUAL.number,
        metavar="N",
        help="RMs at a time; one that is gone makes room for another (%(default)s)",
    )
    for name, text in _CAPS.items():
        usual = getattr(_USUAL.each, name)
        add(f"--max-{name}", type=int, default=usual, metavar="N", help=f"{text} (%(default)s)")
    add(
        "--max-rm-memory",
        type=size,
        metavar="SIZE",
        help="memory of one RM, as the core reckons it: bytes, or 512Mi, 2Gi "
        "(half of --max-memory, 4Gi at most)",
    )
    add(
        "--max-ended-memory",
        type=size,
        default=_USUAL.each.ended_memory,
        metavar="SIZE",
        help="and memory of its applications that are over; the oldest is dropped (64Mi)",
    )
    add(
        "--event-seconds",
        type=float,
        default=_USUAL.events.seconds,
        metavar="SECONDS",
        help="events of an RM are kept for so long while somebody reads them, however many they "
        "are; 0 for not at all (%(default)s)",
    )
    add(
        "--event-memory",
        type=size,
        default=_USUAL.events.memory,
        metavar="SIZE",
        help="memory of the events of one RM, as reckoned; the oldest go (512Mi)",
    )
    add(
        "--max-memory",
        type=size,
        metavar="SIZE",
        help="resident memory of the process above which new work is refused; 0 for any "
        f"({USUAL_PERCENT} %% of what the machine or the control group has)",
    )
    add(
        "--max-plan-pause",
        type=float,
        default=_USUAL.plan_pause,
        metavar="SECONDS",
        help="plans are refused that would keep everybody waiting for longer, and charged below "
        "that; 0 for any (%(default)s)",
    )
    add(
        "--forget-after",
        type=float,
        default=_USUAL.forget_after,
        metavar="SECONDS",
        help="an RM without a stream and without running allocations is forgotten after so long; "
        "0 for never (%(default)s)",
    )


def rm_bounds(args: argparse.Namespace) -> RmBounds:
    """The bounds in the arguments."""
    counted = {name: getattr(args, f"max_{name}") for name in _CAPS}
    limit = System().usual_limit() if args.max_memory is None else args.max_memory
    memory = usual_memory(limit) if args.max_rm_memory is None else args.max_rm_memory
    return RmBounds(
        number=args.max_rms,
        each=RmCaps(**counted, memory=memory, ended_memory=args.max_ended_memory),
        events=EventBounds(seconds=args.event_seconds, memory=args.event_memory),
        memory=limit,
        plan_pause=args.max_plan_pause,
        forget_after=args.forget_after,
    )


def usual_memory(limit: int) -> int:
    """The default memory of one RM in bytes: one alone must not use up the limit."""
    usual = _USUAL.each.memory
    return min(usual, limit // 2) if limit else usual
