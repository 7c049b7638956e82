"""Whose it is: applications, events and configurations that may be of any RM."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from licorne import Rejected
from licorne.si.v1.si_pb2 import EventRecord
from licorne.v1.state_pb2 import Event, ListEventsRequest, ListEventsResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.nouns.events import first_since
from support.peers.town import CONFIG, Town


async def test_an_application_of_any_rm_is_explained(town: Town) -> None:
    """Neither the RM nor the partition of the application has to be named."""
    await town.green.submit("field", queue="root.prod", user="eve")
    await town.green.ask("field", 1, vcore=90_000)
    for name in ("field", "app/field"):
        result = await town.shell("explain", name)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("field/field-")


async def test_an_application_that_several_have(town: Town) -> None:
    """The partitions with the application are listed, and one of them, or its RM, can be named."""
    await town.green.submit("shop", queue="root.prod", user="eve")
    await town.green.ask("shop", 1, prefix="other", vcore=90_000)
    result = await town.shell("explain", "shop")
    assert (result.code, result.out) == (1, "")
    assert "application shop is in several partitions: [blue]default, [green]default" in result.err
    for where in (("--partition", "[green]default"), ("--rm", "green")):
        result = await town.shell("explain", "shop", *where, "-o", "json")
        assert result.json["queue"] == "root.prod"
        assert result.code == 0
    key = next(iter(town.blue.allocations))
    assert (await town.shell("explain", "shop", key)).out.startswith(f"shop/{key} ")


async def test_what_is_known_of_it_is_said(town: Town) -> None:
    """Of several refusals the one about an existing application is printed, whichever RM has it."""
    with pytest.raises(Rejected):
        await town.green.submit("lost", queue="root.nosuch", user="eve")
    result = await town.shell("explain", "lost")
    assert result.code == 3
    assert "application lost is Rejected: " in result.err
    result = await town.shell("explain", "nosuch")
    assert (result.code, result.err) == (3, "licorne: application nosuch not found\n")


@pytest.mark.parametrize(
    ("arguments", "details"),
    [
        (("--app", "idle"), "APP_NEW QUEUE_APP"),
        (("--app", "app/idle", "--type", "app"), "APP_NEW"),
        (("--state", "running"), "APP_RUNNING"),
        (("--state", "Accepted", "--user", "ann"), "APP_ACCEPTED"),
        (("--queue", "root.dev", "--type", "app"), "APP_NEW"),
        (("--queue", "root.dev", "--app", "shop"), ""),
        (("--user", "ann", "--type", "user"), "UG_USER_RESOURCE"),
        (("--user", "user/bob", "--type", "user"), ""),
        (("--node", "node/node-1", "--reason", "node_alloc"), "NODE_ALLOC"),
        (("--reason", "nothing like it"), ""),
        (("--reason", "app_new", "--since", "1h"), "APP_NEW"),
        (("--reason", "app_new", "--since", "1ns"), ""),
    ],
    ids=str,
)
async def test_events_are_chosen(town: Town, arguments: Sequence[str], details: str) -> None:
    """By application, queue, user, node, kind, state, text and time; all have to hold."""
    result = await town.shell("events", *arguments, "-o", "json")
    assert {e["record"]["eventChangeDetail"] for e in result.json["events"]} == set(details.split())


class Kept:
    """A server that answers `ListEvents` with one event a second, of which the older ones were dropped."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.kept = range(lowest, highest + 1)
        self.told = 0

    def ListEvents(self, request: ListEventsRequest, timeout: float) -> ListEventsResponse:  # noqa: N802
        """The requested number of events from the id on."""
        assert timeout == 1.0
        ids = [number for number in self.kept if number >= request.start][: request.count]
        self.told += len(ids)
        events = [Event(id=number, record=EventRecord(timestampNano=number * 10**9)) for number in ids]
        return ListEventsResponse(lowest_id=self.kept.start, highest_id=self.kept.stop - 1, events=events)


@pytest.mark.parametrize(
    ("since", "first"), [(0, 500), (499, 500), (700, 700), (700.5, 701), (9999, 9999), (9e4, 10000)]
)
def test_what_is_too_old_is_not_fetched(since: float, first: int) -> None:
    """The first event since a time is found in a few calls, however many events are retained."""
    kept = Kept(500, 9999)
    args = Namespace(rm_id="", timeout=1.0)
    assert first_since(cast(StateStub, kept), args, since * 1e9) == first
    assert kept.told <= 16


async def test_events_name_the_rm_that_they_are_of(town: Town) -> None:
    """One of several RMs is never chosen in silence."""
    assert (await town.shell("events", "--since", "1h")).err == "RM blue (others: green)\n"
    assert (await town.shell("events", "--since", "1h", "--rm", "blue")).err == ""


async def test_events_of_a_queue_have_those_of_its_applications(town: Town) -> None:
    """Of the queues below too, and of nothing else."""
    events = (await town.shell("events", "--queue", "root.prod", "-o", "json")).json["events"]
    assert {event["record"]["type"] for event in events} >= {"QUEUE", "APP", "USERGROUP"}
    assert not any("idle" in event["record"].values() for event in events)
    whole = (await town.shell("events", "--queue", "root", "-o", "json")).json["events"]
    assert any("idle" in event["record"].values() for event in whole)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with another configuration."""
    path = tmp_path / "queues.yaml"
    path.write_text(f"# ours\n{CONFIG}", encoding="utf-8")
    return path


async def test_the_rm_may_stand_behind_options(town: Town, file: Path) -> None:
    """Words and options may be in any order, for commands with a file and an RM."""
    result = await town.shell("config", "apply", str(file), "--yes", "blue")
    assert result.code == 0
    assert "RM blue: revision 2 is in force\n" in result.err
    result = await town.shell("config", "diff", "-o", "json", str(file), "blue")
    assert (result.code, result.json["revision"]) == (0, 2)


async def test_two_rms_that_are_named_exclude_each_other(town: Town, file: Path) -> None:
    """Two different RMs are an error without a change; the same RM twice is no contradiction."""
    result = await town.shell("config", "apply", str(file), "blue", "--rm", "green", "--yes")
    assert (result.code, result.err) == (
        1,
        "licorne: RM blue is named, and --rm green is another one\n",
    )
    assert (await town.shell("config", "get", "blue", "--rm", "blue")).code == 0
