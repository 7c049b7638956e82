"""Rows of tables that a quiet server does not show."""

from typing import Any

import pytest
from google.protobuf.message import Message

from licorne.v1.state_pb2 import Application, Event, Node, Queue, ResourceManager, Usage
from licorne_cli.nouns.apps import APPS
from licorne_cli.nouns.events import EVENTS
from licorne_cli.nouns.nodes import NODES
from licorne_cli.nouns.queues import QUEUES
from licorne_cli.nouns.rms import RMS
from licorne_cli.nouns.users import GROUPS, USERS
from licorne_cli.output.listing import Listing

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
def test_columns_accept_empty_messages(listing: Listing[Any], item: Message) -> None:
    """Every column of every noun has a text and a sort key for an empty message."""
    assert listing.name_of(item) in ("", "0")
    for column in listing.columns:
        [row, *_] = listing.rows(item)
        assert column.cell(row)
        assert column.sort_key(row, "") is not None
