"""`licorne nodes drain` and `undrain`: whether new allocations may go to a node."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.admin_pb2 import SetNodeSchedulableRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.cli.nouns.selector import Selector
from licorne_server.cli.nouns.verbs import check_options, counted, place_of, tell
from licorne_server.cli.output.text import printable

FILTERS = {"selector": Selector(), "schedulable": None, "reserved": False}
DRAIN = "drain"
ACTS = {DRAIN: "keep new allocations off nodes", "undrain": "let them on nodes again"}


def act(channel: grpc.Channel, args: argparse.Namespace, verb: str, names: Sequence[str]) -> None:
    """Drain the nodes one by one, or take that back."""
    check_options(args, verb, FILTERS)
    place = place_of(channel, args)
    for name in names:
        request = SetNodeSchedulableRequest(
            rm_id=place.rm_id,
            partition=place.partition,
            node_id=name,
            schedulable=verb != DRAIN,
        )
        answer = AdminStub(channel).SetNodeSchedulable(request, timeout=args.timeout)
        node = f"node {printable(name)}"
        if verb != DRAIN:
            tell(args, answer, f"{node} undrained" if answer.changed else f"{node} is not drained")
            continue
        done = f"{node} drained" if answer.changed else f"{node} is drained already"
        goes_on = counted(answer.allocations, "allocation")
        tell(args, answer, f"{done}: {goes_on} there go{'es' * (answer.allocations == 1)} on")
