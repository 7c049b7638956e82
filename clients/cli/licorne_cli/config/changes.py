"""Differences between a text and the configuration in force, queue by queue, as the server says."""

import argparse
from collections.abc import Iterator

from licorne.v1.admin_pb2 import ConfigurationChange, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.output.text import NOTHING, printable


def summary(stub: AdminStub, rm_id: str, text: str, args: argparse.Namespace) -> list[str] | None:
    """A line for each queue or partition that differs, and for each value in it.

    Empty where nothing differs; None where one of the two is no valid configuration.
    """
    request = ValidateConfigurationRequest(config=text, compare_rm_id=rm_id)
    answer = stub.ValidateConfiguration(request, timeout=args.timeout)
    if not answer.compared:
        return None
    lines = [line for change in answer.changes for line in _lines(change)]
    more = answer.change_count - len(answer.changes)
    return [*map(printable, lines), *([f"and {more} more"] if more else [])]


def _lines(change: ConfigurationChange) -> Iterator[str]:
    if change.change == "added":
        pairs = "; ".join(f"{value.name}: {value.after}" for value in change.values)
        yield f"+ {change.name} ({pairs})" if pairs else f"+ {change.name}"
        return
    if change.change == "removed":
        yield f"- {change.name}"
        return
    yield f"~ {change.name}"
    for value in change.values:
        yield f"    {value.name}: {value.before or NOTHING} -> {value.after or NOTHING}"
