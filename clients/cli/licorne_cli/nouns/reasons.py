"""Why asks wait: `licorne explain` without an application, and a line of `licorne status`."""

import argparse
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from licorne.v1.state_pb2 import ListReasonsRequest, ListReasonsResponse, ReasonCause, ReasonQueue, WaitReason
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import check_queue, chosen_partition, partitions_of
from licorne_cli.output.text import (
    DATA_FORMS,
    human_resources,
    print_data,
    print_sentence,
    print_table,
    printable,
    to_plain,
)

HEADERS = ("ASKS", "REASON", "QUEUES", "WANTED", "FIRST", "NEXT")
MOST_QUEUES = 5
MOST_CAUSES = 10
NEVER_FITS = "NEVER_FITS"
NO_NODE_FITS = "NO_NODE_FITS"
ROOT = "root"
SUBJECTS: Mapping[str, str] = {
    "QUEUE_MAX_EXCEEDED": "{} at its maximum",
    "QUEUE_MAX_APPLICATIONS": "{} runs as many applications as it may",
    "QUEUE_STOPPED": "{} stopped by an operator",
    "USER_QUOTA_EXCEEDED": "user {} at the limit",
    "USER_MAX_APPLICATIONS": "user {} runs as many applications as it may",
    "GROUP_QUOTA_EXCEEDED": "group {} at the limit",
    "GROUP_MAX_APPLICATIONS": "group {} runs as many applications as it may",
    "BUDGET_EXCEEDED": "budget {} used up",
    "BUDGET_EXHAUSTED": "hours of {} used up until its next window",
    "QUEUE_CLOSED": "{} closed until its opening hours",
    "MAXIMUM_HELD": "{} holds some of a maximum for a planned start",
}
"""By code of a check: the text about its blocker, with a place for the blocker's name."""


def show_reasons(stub: StateStub, args: argparse.Namespace) -> None:
    """Print the reasons why the asks of the partition, RM or queue in the arguments wait."""
    answer = reasons_of(stub, args, args.queue)
    if not answer.asks:
        check_queue(stub, args)
    if args.output in DATA_FORMS:
        print_data(to_plain(answer), args.output)
        return
    if not answer.asks:
        print_sentence("nothing waits")
        return
    never = never_of(answer).asks
    waits = "1 ask waits" if answer.asks - never == 1 else f"{answer.asks - never:,} asks wait"
    print_sentence(f"{waits}{f', {never:,} can never start' if never else ''}:\n")
    print_table(HEADERS, list(map(row, answer.reasons)), heads=2)


def reasons_of(stub: StateStub, args: argparse.Namespace, queue: str = "") -> ListReasonsResponse:
    """The reasons in the partition, for the RM, or in all partitions, depending on the arguments."""
    if args.partition:
        names = [chosen_partition(stub, args)]
    elif args.rm_id:
        names = partitions_of(stub, args)
    else:
        names = [""]
    requests = (ListReasonsRequest(partition=name, queue=queue) for name in names)
    answers = [stub.ListReasons(request, timeout=args.timeout) for request in requests]
    return answers[0] if len(answers) == 1 else together(answers)


def together(answers: Sequence[ListReasonsResponse]) -> ListReasonsResponse:
    """The totals of the answers for several partitions."""
    sums: dict[str, WaitReason] = {}
    for reason in (reason for answer in answers for reason in answer.reasons):
        found = sums.get(reason.code)
        if found is None:
            sums[reason.code] = reason
            continue
        found.asks += reason.asks
        found.queues += reason.queues
        for name, amount in reason.resources.items():
            found.resources[name] += amount
        queues = sorted([*found.first_queues, *reason.first_queues], key=lambda one: -one.asks)
        causes = _added([*found.causes, *reason.causes])
        del found.first_queues[:], found.causes[:]
        found.first_queues.extend(queues[:MOST_QUEUES])
        found.causes.extend(causes[:MOST_CAUSES])
    return ListReasonsResponse(
        reasons=sorted(sums.values(), key=lambda one: (-one.asks, one.code)),
        asks=sum(answer.asks for answer in answers),
        time=min(answer.time for answer in answers),
        missing_members=dict.fromkeys(name for answer in answers for name in answer.missing_members),
    )


def never_of(answer: ListReasonsResponse) -> WaitReason:
    """The asks that can never start; none if there are none."""
    return next((one for one in answer.reasons if one.code == NEVER_FITS), WaitReason())


def _added(causes: Iterable[ReasonCause]) -> list[ReasonCause]:
    counts: Counter[str] = Counter()
    for one in causes:
        counts[one.cause] += one.asks
    return [ReasonCause(cause=cause, asks=asks) for cause, asks in counts.most_common()]


def row(reason: WaitReason) -> tuple[str, ...]:
    """The cells of a reason; the last one is the command that shows one of its asks."""
    command = ["licorne", "explain", reason.application_id, reason.allocation_key]
    return (
        f"{reason.asks:,}",
        printable(reason.code),
        f"{reason.queues:,}",
        human_resources(reason.resources),
        first_of(reason),
        printable(shlex.join(filter(None, command))),
    )


def first_of(reason: WaitReason) -> str:
    """The first subject or size of a reason, or the shortages: ``5,800 full: memory, 300 reserved``."""
    if reason.code == NO_NODE_FITS:
        return printable(", ".join(f"{one.asks:,} {one.cause}" for one in reason.causes))
    if reason.code == NEVER_FITS and reason.causes:
        return printable(reason.causes[0].cause)
    return "".join(_subject(reason.code, one) for one in reason.first_queues[:1])


def _subject(code: str, place: ReasonQueue) -> str:
    if code == "QUEUE_MAX_EXCEEDED" and place.subject == ROOT:
        return "the cluster is full"
    if not place.subject:
        return printable(f"in {place.queue}")
    return printable(SUBJECTS.get(code, "{}").format(place.subject))


def in_one_line(answer: ListReasonsResponse) -> str:
    """``18 QUEUE_MAX_EXCEEDED in 4 queues (first: root.a at its maximum) · …``; no asks that never start."""
    parts = []
    for reason in (one for one in answer.reasons if one.code != NEVER_FITS):
        queues = "1 queue" if reason.queues == 1 else f"{reason.queues:,} queues"
        first = f" (first: {found})" if (found := first_of(reason)) else ""
        if reason.code == NO_NODE_FITS:
            # A single cause concerns all asks of the reason, so its number is left out.
            only = reason.causes[0].cause if len(reason.causes) == 1 else ""
            parts.append(f"{reason.asks:,} {NO_NODE_FITS} ({printable(only) or first_of(reason)})")
        else:
            parts.append(f"{reason.asks:,} {printable(reason.code)} in {queues}{first}")
    return " · ".join(parts)
