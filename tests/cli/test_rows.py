"""Lines of tables that a quiet server has no occasion to show."""

from typing import Any

import pytest
from google.protobuf.message import Message

from licorne.v1.state_pb2 import (
    Application,
    Ask,
    Check,
    Event,
    HolderReason,
    Node,
    Queue,
    Reservation,
    ResourceManager,
    Usage,
)
from licorne_cli.nouns.apps import APPS, print_one
from licorne_cli.nouns.events import EVENTS
from licorne_cli.nouns.explain import cause_rows
from licorne_cli.nouns.nodes import NODES
from licorne_cli.nouns.queues import QUEUES
from licorne_cli.nouns.rms import RMS
from licorne_cli.nouns.users import GROUPS, USERS
from licorne_cli.output.listing import Listing
from support.server.reports import cells

LISTINGS = (
    (APPS, Application()),
    (EVENTS, Event()),
    (NODES, Node()),
    (QUEUES, Queue()),
    (RMS, ResourceManager()),
    (USERS, Usage()),
    (GROUPS, Usage()),
)


@pytest.mark.parametrize(("listing", "item"), LISTINGS, ids=lambda value: getattr(value, "plural", ""))
def test_columns_name_fields_of_the_messages(listing: Listing[Any], item: Message) -> None:
    """Every column of every noun has a text and an order for an empty message."""
    assert listing.name_of(item) in ("", "0")
    for column in listing.columns:
        [row, *_] = listing.rows(item)
        assert column.cell(row)
        assert column.sort_key(row, "") is not None


def test_asks_say_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    """An ask with a reserved node, or one that the RM is asked about, names the node."""
    asks = [
        Ask(allocation_key="k1", assumed_node="n1", reserved_node="n2"),
        Ask(allocation_key="k2", reserved_node="n2"),
        Ask(allocation_key="k3"),
    ]
    print_one(Application(application_id="shop", asks=asks))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:3] for line in lines[-3:]] == [
        ["k1", "assumed", "n1"],
        ["k2", "reserved", "n2"],
        ["k3", "pending", "-"],
    ]


@pytest.mark.parametrize(("count", "held", "shown"), [(6, 4, "2 +4 placeholders"), (2, 0, "2")])
def test_placeholders_run_nothing(count: int, held: int, shown: str) -> None:
    """RUNNING counts allocations with work; placeholders are listed beside it."""
    app = Application(application_id="gang", allocation_count=count, placeholder_count=held)
    assert cells(APPS, app)["RUNNING"] == shown


def test_nodes_name_the_asks_that_they_are_kept_for() -> None:
    """A reserved node shows application and ask of each reservation, any other a dash."""
    reservations = [
        Reservation(application_id="shop", allocation_key="k1"),
        Reservation(application_id="lab\x1b", allocation_key="k1"),
    ]
    assert cells(NODES, Node(node_id="n1", reservations=reservations))["RESERVED FOR"] == (
        "shop/k1 lab\\x1b/k1"
    )
    assert cells(NODES, Node(node_id="n1"))["RESERVED FOR"] == "-"


def test_nodes_say_why_those_that_they_are_kept_for_wait() -> None:
    """Queue, amounts, time and reason of reservations have columns of their own."""
    reason = HolderReason(code="WAITS_FOR_ROOM", message="waits for room", lacks={"vcore": 2000})
    held = Reservation(
        application_id="shop",
        allocation_key="k1",
        queue="root.a",
        kept={"vcore": 6000},
        time=10**18,
        reason=reason,
    )
    node = Node(node_id="n1", reservations=[held], reservation_count=20, kept={"vcore": 6000})
    shown = cells(NODES, node)
    assert shown["RESERVED FOR"] == "shop/k1 and 19 more"
    assert shown["HOLDER"] == "waits for room, lacks vcore=2"
    assert (shown["HOLDER QUEUE"], shown["RESERVED"]) == ("root.a", "vcore=6")
    assert shown["RESERVED SINCE"] == "2001-09-09T01:46:40.000Z"
    empty = cells(NODES, Node(node_id="n1"))
    assert [empty[name] for name in ("HOLDER", "HOLDER QUEUE", "RESERVED")] == ["-"] * 3


def test_causes_come_by_how_many_nodes_they_keep_out() -> None:
    """The most frequent cause is first, equal ones by name; a refusal has the RM's words."""
    check = Check(causes={"full: vcore": 2, "refused: taint\n": 30, "reserved": 2})
    assert cause_rows(check.causes) == [
        ("30", "refused: taint\\n"),
        ("2", "full: vcore"),
        ("2", "reserved"),
    ]
