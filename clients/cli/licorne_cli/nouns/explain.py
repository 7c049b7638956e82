"""`licorne explain`: why all asks wait; why one ask waits, where it runs, or why it was preempted."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

import grpc

from licorne.v1.admin_pb2 import PlanStartRequest, PlanStartResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import (
    Check,
    ExpectedStart,
    ExplainRequest,
    ExplainResponse,
    GetApplicationRequest,
    Preemption,
    PreemptionQueue,
    QueueReservations,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import (
    add_connection_arguments,
    chosen_partition,
    partitions_of,
    served,
    suggesting,
)
from licorne_cli.failures import UsageError
from licorne_cli.nouns.app_acts import active_names
from licorne_cli.nouns.reasons import show_reasons
from licorne_cli.output.listing import of_kind
from licorne_cli.output.text import (
    DATA_FORMS,
    counted,
    human_resources,
    human_text,
    print_data,
    print_sentence,
    print_table,
    printable,
    reason_text,
    shown_time,
    to_plain,
)

EXAMPLES = (
    ("licorne explain", "why everything waits, the most frequent reason first"),
    ("licorne explain --rm batch --queue root.nightly", "why the asks of a queue wait"),
    ("licorne explain oversized", "why its first ask waits"),
    ("licorne explain oversized --rm batch -o json", "for programs"),
)

HEADERS = ("CHECK", "RESULT", "WANTED", "USED", "LIMIT", "WHY")
OUT_HEADERS = ("NODES", "OUT BECAUSE")
CAUSE_HEADERS = {"preemption": ("COUNT", "NO VICTIM BECAUSE")}
"""By kind of check: the headers of its causes, if they do not count nodes."""
TRIED = frozenset({"size", "queue", "user", "group", "running", "nodes"})
"""Kinds of checks that may pass with a higher maximum or another node."""
UNTIL = {
    "gang": "placeholders of its gang time out at",
    "preemption": "preemption is worth another look at",
    "hours": "the hours of the queue are new at",
    "backfill": "the shadow start that it may not delay is at",
}
"""By kind of check: the meaning of its time; for other kinds it is the time when the check ends."""
HOLDER_HEADERS = ("RESERVED FOR", "NODES", "IDLE", "AMOUNTS", "HOLDER")
RUNS = ("New", "Accepted", "Running", "Completing")
"""States of applications that have not ended."""
QUEUE_HEADERS = ("QUEUE", "GUARANTEED", "MAX", "ALLOCATED", "PREEMPTING", "PROMISED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne explain`."""
    parser.add_argument(
        "application",
        nargs="?",
        default="",
        type=of_kind("app"),
        metavar="APP",
        help="the application (default: why all asks wait, in sum)",
    )
    parser.add_argument(
        "ask", nargs="?", default="", metavar="ASK", help="its ask (default: the first in order)"
    )
    parser.add_argument(
        "--queue",
        default="",
        metavar="QUEUE",
        help="without APP: only asks of this queue, and of those below it",
    )
    parser.add_argument(
        "--no-trials", action="store_true", help="do not try on a copy what would let the ask start"
    )
    add_connection_arguments(parser, everywhere=True)


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the verdict, its reason in a sentence, and all checks in order; without APP the totals.

    Raises:
        UsageError: both an application and a queue are given.
    """
    if args.application and args.queue:
        raise UsageError("--queue is for all asks: leave out the application")
    if not args.application:
        show_reasons(StateStub(channel), args)
        return
    stub = StateStub(channel)
    with suggesting(args.application, lambda: names(stub, args)):
        partition, response = found(stub, args)
    trials = None
    is_stopped = any(one.kind in TRIED for one in response.checks if not one.passed)
    if response.verdict == "pending" and is_stopped and not args.no_trials:
        full = next(
            (one for one in partitions_of(stub, args) if partition in (one, one.partition("]")[2])), partition
        )
        trials = tried(AdminStub(channel), args, full, response)
    if args.output in DATA_FORMS:
        planned = PlanStartResponse(not_tried=trials) if isinstance(trials, str) else trials
        print_data(to_plain(response) | {"planStart": to_plain(planned)}, args.output)
        return
    print_explanation(response, trials)


run = served(show)


def tried(
    stub: AdminStub, args: argparse.Namespace, partition: str, response: ExplainResponse
) -> PlanStartResponse | str:
    """The server's trials of changes that would let the ask start, or the reason why there are none."""
    request = PlanStartRequest(
        rm_id=partition[1:].partition("]")[0],
        partition=partition,
        application_id=response.application_id,
        allocation_key=response.allocation_key,
    )
    try:
        return stub.PlanStart(request, timeout=args.timeout)
    except grpc.RpcError as error:
        # The server has no memory for a copy, or the ask has started by now.
        return error.details() or error.code().name


def found(stub: StateStub, args: argparse.Namespace) -> tuple[str, ExplainResponse]:
    """The explanation and its partition. If none was named, all partitions are queried.

    Raises:
        UsageError: several partitions have the application.
    """
    if args.partition:
        partition = chosen_partition(stub, args)
        try:
            return partition, explained(stub, args, partition)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND and (
                settled := nothing_waits(stub, args, [partition])
            ):
                return partition, settled
            raise
    answers: dict[str, ExplainResponse] = {}
    refusals: list[grpc.RpcError] = []
    for partition in partitions_of(stub, args):
        try:
            answers[partition] = explained(stub, args, partition)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            refusals.append(error)
    if not answers:
        if (settled := nothing_waits(stub, args)) is not None:
            return "", settled
        raise most_specific(refusals)
    if len(answers) > 1:
        where = printable(", ".join(answers))
        name = printable(args.application)
        raise UsageError(f"application {name} is in several partitions: {where}. Name one: --partition")
    [answer] = answers.items()
    return answer


def names(stub: StateStub, args: argparse.Namespace) -> Iterator[str]:
    """The applications to which the arguments may refer."""
    for partition in [args.partition] if args.partition else partitions_of(stub, args):
        yield from active_names(stub, args.timeout, partition)


def nothing_waits(
    stub: StateStub, args: argparse.Namespace, partitions: Iterable[str] = ()
) -> ExplainResponse | None:
    """The answer for an application without waiting asks; None if it is unknown, or an ask was named."""
    if args.ask:
        return None
    for partition in partitions or partitions_of(stub, args):
        request = GetApplicationRequest(partition=partition, application_id=args.application, limit=1)
        try:
            app = stub.GetApplication(request, timeout=args.timeout)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            continue
        if not app.pending_asks and app.state in RUNS:
            summary = f"nothing waits, {app.allocation_count:,} run"
            return ExplainResponse(
                application_id=app.application_id, queue=app.queue, verdict=app.state.lower(), summary=summary
            )
    return None


def most_specific(refusals: Sequence[grpc.RpcError]) -> grpc.RpcError:
    """The first refusal that says more than that the application is unknown, or else the first refusal."""
    ends = "not found"
    return next((error for error in refusals if not (error.details() or "").endswith(ends)), refusals[0])


def explained(stub: StateStub, args: argparse.Namespace, partition: str) -> ExplainResponse:
    """The answer of one partition."""
    request = ExplainRequest(partition=partition, application_id=args.application, allocation_key=args.ask)
    return stub.Explain(request, timeout=args.timeout)


def print_explanation(response: ExplainResponse, trials: PlanStartResponse | str | None = None) -> None:
    """Print an explanation for people; for a blocked ask, with the trials."""
    subject = printable(f"{response.application_id}/{response.allocation_key}".rstrip("/"))
    print_sentence(f"{subject} in {printable(response.queue)}: {response.verdict}")
    print_sentence(human_text(response.summary))
    print_times(response)
    if response.verdict in ("pending", "waiting"):
        print_sentence(
            f"ahead of it: {counted(response.asks_ahead, 'ask')} of the application,"
            f" {counted(response.applications_ahead, 'application')} of the queue"
        )
        if response.age_bonus:
            print_sentence(
                f"for its age the application is ordered by a priority {response.age_bonus} higher"
            )
    if trials is not None:
        print_trials(trials)
    if response.checks:
        print()
        print_table(HEADERS, [row(check) for check in response.checks], heads=2)
    for check in response.checks:
        if check.causes:
            print()
            print_table(CAUSE_HEADERS.get(check.kind, OUT_HEADERS), cause_rows(check.causes))
        if check.reserved_for:
            print()
            print_table(HOLDER_HEADERS, list(map(holder_row, check.reserved_for)), heads=1)
            if check.more_queues:
                print_sentence(f"and nodes for {check.more_queues:,} more queues")
    if response.HasField("preemption"):
        if response.verdict not in ("stopping", "preempted"):
            print_sentence("it was preempted before")
        print_preemption(response.preemption)


def print_trials(trials: PlanStartResponse | str) -> None:
    """Print the changes with which the ask would start, or that there are none."""
    if isinstance(trials, str):
        print_sentence(f"what would let it start was not tried: {human_text(trials)}")
        return
    for trial in trials.trials:
        print_sentence(f"confirmed on a copy: {human_text(trial.message)}")
    if trials.not_tried:
        lacks = human_text(trials.advice.message) or "nothing that another bound or node would give"
        print_sentence(f"not confirmed, by its checks alone it lacks: {lacks}")
        print_sentence(f"it was not tried: {human_text(trials.not_tried)}")
    elif not trials.trials:
        why = "" if trials.complete else ", as far as there was time to try"
        print_sentence(f"nothing that was tried is enough, or it goes to asks ahead of this one{why}")


def print_times(response: ExplainResponse) -> None:
    """Print when the ask's hold ends, when something changes by itself, and the expected start."""
    for check in response.checks:
        if check.since:
            print_sentence(f"held since {shown_time(check.since)}")
        if check.until and not (check.passed and check.kind == "hours"):
            print_sentence(f"{UNTIL.get(check.kind, 'until')} {shown_time(check.until)}")
    if any(check.kind == "size" and not check.passed for check in response.checks):
        print_sentence("expected to start: never")
    elif response.HasField("passed"):
        print_sentence(f"the start that it passed was planned for {shown_time(response.passed.starts_at)}")
    elif response.HasField("expected_start"):
        print_sentence(start_text(response.expected_start))


def start_text(start: ExpectedStart) -> str:
    """A sentence with the expected start, its range and confidence, and the latest requested start."""
    text = "expected to start"
    if start.level:
        within = f"between {shown_time(start.earliest)} and {shown_time(start.latest)}"
        text += f" {within} in {start.level} of 100 cases,"
    text += f" at {shown_time(start.starts_at)} ({start.confidence})" if start.starts_at else ": unknown"
    if start.asks_ahead:
        text += f", too many are ahead of it: {counted(start.asks_ahead, 'ask')}"
    if start.unasked:
        text += ", by amounts alone: its RM was not asked about nodes"
    if start.first_told and start.first_told != start.starts_at:
        text += f", first told {shown_time(start.first_told)}"
    if start.start_by:
        is_late = start.starts_at > start.start_by
        text += f", {'later than' if is_late else 'wanted by'} {shown_time(start.start_by)}"
    return text


def print_preemption(victim: Preemption) -> None:
    """Print a victim, the time of its stop, and the queues at that time."""
    size = human_resources(victim.resources)
    print_sentence(f"it took {size} with priority {victim.priority}")
    gone = f"gone since {shown_time(victim.released_time)}" if victim.released_time else "not gone"
    print_sentence(f"asked to stop at {shown_time(victim.time)}, {gone}")
    if victim.beneficiary_allocation_key:
        print_sentence(f"the ask that it had to go for has priority {victim.beneficiary_priority}")
    queues = [victim.victim_queue]
    if victim.HasField("beneficiary_queue") and victim.beneficiary_queue.path != queues[0].path:
        queues.append(victim.beneficiary_queue)
    print("\nwhat its queue had then:" if len(queues) == 1 else "\nwhat the queues had then:")
    print_table(QUEUE_HEADERS, [queue_row(queue) for queue in queues])


def queue_row(queue: PreemptionQueue) -> tuple[str, ...]:
    """The cells of a queue as it was when the victim was chosen."""
    amounts = (queue.guaranteed, queue.max, queue.allocated, queue.preempting, queue.promised)
    return (printable(queue.path), *map(human_resources, amounts))


def row(check: Check) -> tuple[str, ...]:
    """The cells of a check."""
    return (
        printable(f"{check.kind} {check.subject}".rstrip()),
        "pass" if check.passed else "BLOCK",
        human_resources(check.requested),
        human_resources(check.used),
        human_resources(check.limit),
        human_text(check.message if check.passed else f"{check.code}: {check.message}"),
    )


def holder_row(found: QueueReservations) -> tuple[str, ...]:
    """The cells of the reservations that belong to asks of a queue."""
    counts = (f"{found.nodes:,}", f"{found.idle:,}")
    return (printable(found.queue), *counts, human_resources(found.kept), reason_text(found.reason))


def cause_rows(causes: Mapping[str, int]) -> list[tuple[str, str]]:
    """The causes that exclude nodes, the most frequent first."""
    ranked = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    return [(f"{count:,}", printable(cause)) for cause, count in ranked]
