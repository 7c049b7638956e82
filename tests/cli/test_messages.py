"""Output for messages that a quiet server does not send.

They are in ``data/recorded/messages``, see ``support/recorded.py``: a line with ``>`` has the kind of the
output, and the messages as JSON.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from licorne.v1 import state_pb2 as pb
from licorne_cli.nouns.apps import print_one
from licorne_cli.nouns.budgets import BUDGETS
from licorne_cli.nouns.explain import print_explanation
from licorne_cli.nouns.nodes import NODES
from licorne_cli.nouns.queues import QUEUES
from licorne_cli.nouns.rms import RMS
from licorne_cli.nouns.usage import print_csv
from licorne_cli.output.printer import Printer
from support.recorded import Scene, scenes

LISTS: dict[str, tuple[type[Any], Any]] = {
    "queues": (pb.Queue, QUEUES),
    "nodes": (pb.Node, NODES),
    "budgets": (pb.Budget, BUDGETS),
    "rms": (pb.ResourceManager, RMS),
}


def read(kind: type[Any], given: Sequence[Any]) -> list[Any]:
    """The messages parsed from JSON."""
    return [ParseDict(one, kind()) for one in given]


@pytest.mark.parametrize("scene", scenes("messages", "> "), ids=lambda scene: scene.path)
async def test_messages_are_printed_as_recorded(
    scene: Scene, rewrite: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns without any value are left out, and names have no effect on the terminal."""

    async def printed(line: str) -> Iterable[str]:
        what, _, given = line[2:].partition(" ")
        shown = json.loads(f"[{given}]")
        if what == "app":
            print_one(*read(pb.Application, shown))
        elif what == "explain":
            print_explanation(*read(pb.ExplainResponse, shown))
        elif what == "usage":
            print_csv(read(pb.ResourceHours, shown))
        else:
            name, _, form = what.partition(":")
            kind, listing = LISTS[name]
            Printer(listing, form or "table").print(read(kind, shown))
        return (text.rstrip() for text in capsys.readouterr().out.splitlines())

    await scene.replay(printed, rewrite=rewrite)
