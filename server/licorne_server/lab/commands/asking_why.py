"""The work of `licorne why`: replays a core to a past moment, finds the ask, and explains it."""

import argparse
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final

from licorne_cli.failures import NotFoundError, UsageError
from licorne_cli.nouns.explain import print_explanation
from licorne_cli.output.text import DATA_FORMS, print_data, printable, say, to_plain
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, bare_partition
from licorne_core.views import Views
from licorne_server.lab.commands.runs import Run, Teller, shown_moment, torn_text
from licorne_server.lab.simulation.replaying import replay
from licorne_server.reads import explaining

MOST_NAMES: Final = 50_000
"""Maximum number of names that are compared with an unknown name."""
MOST_LIKE: Final = 5
LIKENESS: Final = 0.6
LONGEST: Final = 64
"""Maximum number of characters of a name that are compared."""

Found = tuple[PartitionName, AppId]


def explain_and_print(args: argparse.Namespace) -> None:
    """Print the explanation of an ask at a moment.

    Raises:
        UsageError: an argument is invalid, or several asks have the key.
        NotFoundError: there was no such ask.
    """
    run = Run(args.journal, args.run)
    until = run.moment(args.at, "--at")
    replayed = replay(run.records(), until, Teller("replaying", run.header.start))
    if replayed.torn is not None:
        say(f"licorne: {torn_text(replayed.torn)}")
    if replayed.complete:
        say(f"licorne: the run ends at {shown_moment(replayed.end)}, and this is how it was then")
    views = replayed.player.scheduler.views
    partition, app_id = _only_one(views, args, when=shown_moment(min(until, replayed.end)))
    try:
        steps = views.explain(partition, app_id, args.key)
        report = next(step for step in steps if step is not None)
    except NotFound as error:
        raise NotFoundError(printable(str(error))) from None
    message = explaining.answer(views, partition, report, None)
    if args.output in DATA_FORMS:
        print_data(to_plain(message), args.output)
    else:
        print_explanation(message)


def _only_one(views: Views, args: argparse.Namespace, when: str) -> Found:
    """The one ask with the key, or else the one victim with the key."""
    partitions = _partitions(views, args.partition)
    key = AllocationKey(args.key)
    found: list[Found] = [
        (one, app_id)
        for one in partitions
        for app_id in views.app_ids(one)
        if args.app in ("", app_id) and views.request(one, app_id, key) is not None
    ]
    if not found:
        records = (
            (one, record.app_id) for one in partitions for record in views.preemptions(one, args.app, key)
        )
        found = list(dict.fromkeys(records))
    if not found:
        raise NotFoundError(_not_there(views, partitions, args, when))
    if len(found) > 1:
        where = ", ".join(f"{name} {of}" for name, of in found[:MOST_LIKE])
        more = ", ..." if len(found) > MOST_LIKE else ""
        raise UsageError(
            f"several asks have the key {printable(key)}, in {printable(where)}{more}."
            " Name one: --partition, --app"
        )
    return found[0]


def _partitions(views: Views, name: str) -> list[PartitionName]:
    """All partitions, or those with this full or bare name."""
    known = views.partitions_made()
    named = [one for one in known if name in ("", one, bare_partition(one))]
    if name and not named:
        there = printable(", ".join(islice(known, MOST_LIKE))) or "none"
        raise NotFoundError(f"there was no partition {printable(name)} then; there: {there}")
    return named


def _not_there(views: Views, partitions: list[PartitionName], args: argparse.Namespace, when: str) -> str:
    """A sentence which says that there was no such ask, with similar names."""
    text = f"there was no ask {printable(args.key)} at {when}"
    if args.app:
        text += f" in application {printable(args.app)}"
        if not any(args.app in views.app_ids(one) for one in partitions):
            return f"{text}, which was not there{_like(args.app, _applications(views, partitions))}"
    if any(args.key in views.app_ids(one) for one in partitions):
        waiting = [printable(key) for key in islice(_keys(views, partitions, args.key), MOST_LIKE)]
        return f"{text}, but an application of that name, with asks such as {', '.join(waiting) or 'none'}"
    return f"{text}{_like(args.key, _keys(views, partitions, args.app))}"


def _applications(views: Views, partitions: list[PartitionName]) -> Iterator[str]:
    for one in partitions:
        yield from views.app_ids(one)


def _keys(views: Views, partitions: list[PartitionName], app: str) -> Iterator[str]:
    for one in partitions:
        for app_id in views.app_ids(one):
            if app in ("", app_id):
                for request in views.requests(one, app_id):
                    yield request.ask.key


def _like(name: str, names: Iterator[str]) -> str:
    """Similar names that exist, as ``; there: a, b``; empty if there are none."""
    known = list(islice(names, MOST_NAMES))
    name = name[:LONGEST]
    begin = [one for one in known if one.startswith(name)]
    # Comparing all names takes minutes, so names with the same beginning are compared first.
    some = [one for one in known if one[:2] == name[:2]] or known
    near = begin[:MOST_LIKE] or get_close_matches(
        name, [one[:LONGEST] for one in some[: MOST_NAMES // 10]], n=MOST_LIKE, cutoff=LIKENESS
    )
    return f"; there: {printable(', '.join(near))}" if near else ""
