"""Filters of `licorne apps`: queue, user, group, state, and the reason to wait."""

import argparse
from collections.abc import Iterator, Sequence

import grpc

from licorne.v1.state_pb2 import Application, ExplainRequest, ListApplicationsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.pages import pages

LISTS = ("active", "completed", "rejected")
"""Lists of the server. The second has failed applications too."""
ALL = "all"
OF_LIST = {
    "new": "active",
    "accepted": "active",
    "running": "active",
    "resuming": "active",
    "completing": "active",
    "failing": "active",
    "failed": "completed",
    "expired": "completed",
}
"""A single state, and the list that it is in."""


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what chooses applications."""
    group = parser.add_argument_group("which")
    add = group.add_argument
    add("--queue", default="", metavar="QUEUE", help="only those of this queue")
    add("--user", default="", metavar="USER", help="only those of this user")
    add("--group", default="", metavar="GROUP", help="only those of users in this group")
    add(
        "--state",
        type=str.lower,
        choices=(*LISTS, ALL, *OF_LIST),
        default=LISTS[0],
        help="only those in this state (%(default)s: all that are not over)",
    )
    add(
        "--reason",
        default="",
        metavar="TEXT",
        help="only those that wait, or were rejected, for a reason with this text in it: a code "
        "such as NO_NODE_FITS, or words; each application that waits is explained for it",
    )


class Reasons:
    """Reasons to wait or to be rejected, asked of the server once for each look."""

    def __init__(self, stub: StateStub, timeout: float, partition: str) -> None:
        """Reasons of the applications of a partition."""
        self._stub = stub
        self._timeout = timeout
        self._partition = partition
        self._known: dict[str, str] = {}

    def forget(self) -> None:
        """Ask anew for every application."""
        self._known.clear()

    def of(self, app: Application) -> str:
        """The reason of its rejection, or the check that blocks its first ask; empty for none."""
        if app.rejected_message or not app.pending_asks:
            return app.rejected_message
        if app.application_id not in self._known:
            self._known[app.application_id] = self._asked(app.application_id)
        return self._known[app.application_id]

    def _asked(self, application_id: str) -> str:
        request = ExplainRequest(partition=self._partition, application_id=application_id)
        try:
            answer = self._stub.Explain(request, timeout=self._timeout)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return ""  # it is gone meanwhile, or asks for nothing
            raise
        return next((f"{c.code}: {c.message}" for c in answer.checks if not c.passed), "")


def lists_of(state: str) -> Sequence[str]:
    """The server's lists in which applications of a state are."""
    return LISTS if state == ALL else (OF_LIST.get(state, state),)


def listed_apps(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[Application]:
    """The applications in the lists of the wanted state, of the wanted queue."""
    queue = args.queue.removeprefix("queue/")
    for state in lists_of(args.state):
        request = ListApplicationsRequest(partition=partition, queue=queue, state=state)
        for page in pages(stub.ListApplications, request, args.timeout):
            yield from page.applications


def is_wanted(app: Application, args: argparse.Namespace) -> bool:
    """True if state, user and group are the wanted ones."""
    return (
        (args.state not in OF_LIST or app.state.lower() == args.state)
        and args.user.removeprefix("user/") in ("", app.user)
        and (not args.group or args.group.removeprefix("group/") in app.groups)
    )
