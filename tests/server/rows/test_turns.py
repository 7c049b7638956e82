"""Whose turn it is within a queue, seen from outside (spec §§ 4.12, 5.2, 5.3.2, 8.3a)."""

import pytest

from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask

AWARE = "application.sort.policy: stateaware"
FAIR = "application.sort.policy: fair"
FIFO = "application.sort.policy: fifo"
TIRED = "application.unschedasks.backoff: '2', application.unschedasks.backoff.delay: 5s"
BY_AGE = "application.sort.priority: disabled"


def leaf(properties: str = "", **settings: object) -> str:
    """A configuration of the one leaf root.a."""
    more = "".join(f", {name}: {value}" for name, value in settings.items())
    return (
        "partitions:\n"
        "  - name: default\n"
        f"    queues: [{{name: root, submitacl: '*', queues: [{{name: a, properties: "
        f"{{{properties}}}{more}}}]}}]\n"
    )


async def started(rm: ServedRm, config: str, *app_ids: str, **nodes: int) -> None:
    """Nodes, and applications in root.a that were submitted a second apart."""
    await rm.register(config, **nodes)
    for app_id in app_ids:
        assert await rm.submit(application(app_id, "root.a")) == {}
        await rm.wait(1)


async def state(rm: ServedRm, app_id: str) -> str:
    """The state in which REST shows an application."""
    found: str = (await rm.app(app_id))["applicationState"]
    return found


@pytest.mark.row(91)
async def test_one_application_too_many_waits_in_accepted(rm: ServedRm) -> None:
    """The third of two stays Accepted with its event, and starts when one of them ends."""
    await started(rm, leaf(maxapplications=2), "one", "two", "three", n0=1000)
    await rm.ask(*(ask(app_id, app_id) for app_id in ("one", "two", "three")))
    assert (await rm.heard()).keys == ["one", "two"]
    assert await state(rm, "three") == "Accepted"
    waits = ("APP_CANNOTRUN_QUEUE", "three")
    runs = ("APP_RUNNABLE_QUEUE", "three")
    assert await rm.events(waits[0], runs[0]) == [waits]
    assert (await rm.queue("root.a"))["runningApps"] == 2
    await rm.wait(600)
    assert (await rm.heard()).keys == []
    await rm.remove("one")
    heard = await rm.heard()
    assert heard.keys == ["three"]
    assert ("three", "Running") in heard.states
    assert await rm.events(waits[0], runs[0]) == [waits, runs]


@pytest.mark.row(92)
async def test_fifo_serves_the_older_application_first(rm: ServedRm) -> None:
    """The younger one runs when the older has no asks left, whoever asked first."""
    await started(rm, leaf(FIFO), "senior", "junior", n0=300)
    await rm.ask(ask("fill", "junior", vcore=300))
    await rm.ask(
        *(ask(f"{app_id}{i}", app_id) for app_id in ("junior", "senior") for i in range(2))
    )
    assert (await rm.heard()).keys == ["fill"]
    await rm.release("fill", app_id="junior")
    assert (await rm.heard()).keys == ["senior0", "senior1", "junior0"]


@pytest.mark.row(93, 95)
async def test_fifo_runs_applications_side_by_side(rm: ServedRm) -> None:
    """Two run at once, and an older one that asks for nothing holds nobody up."""
    await started(rm, leaf(FIFO), "silent", "one", "two", n0=1000)
    await rm.ask(*(ask(app_id, app_id) for app_id in ("one", "two")))
    assert (await rm.heard()).keys == ["one", "two"]
    assert [await state(rm, app_id) for app_id in ("silent", "one", "two")] == [
        "New",
        "Running",
        "Running",
    ]


@pytest.mark.row(94)
async def test_fair_gives_applications_the_same(rm: ServedRm) -> None:
    """Of endless asks of two applications as many of the one as of the other are placed."""
    await started(rm, leaf(FAIR), "one", "two", n0=1000)
    await rm.ask(*(ask(f"{app_id}-{i}", app_id) for app_id in ("one", "two") for i in range(20)))
    keys = (await rm.heard()).keys
    assert [sum(key.startswith(app_id) for key in keys) for app_id in ("one", "two")] == [5, 5]


@pytest.mark.row(96)
async def test_state_aware_lets_in_one_at_a_time(rm: ServedRm) -> None:
    """Of three new applications one gets its first allocation, until it has its second."""
    await started(rm, leaf(AWARE), "one", "two", "three", n0=1000)
    # The oldest need not ask first, as long as all asks come together.
    order = ("one", "two", "three") if rm.one_item else ("three", "two", "one")
    await rm.ask(*(ask(app_id, app_id) for app_id in order))
    assert (await rm.heard()).keys == ["one"]
    assert [await state(rm, app_id) for app_id in ("two", "three")] == ["Accepted"] * 2
    await rm.ask(ask("second", "one"))
    assert (await rm.heard()).keys == ["second", "two"]


@pytest.mark.row(96, 97)
async def test_state_aware_lets_the_next_in_after_five_minutes(rm: ServedRm) -> None:
    """Who starts and asks for nothing more holds the others back so long, and not longer."""
    await started(rm, leaf(AWARE), "one", "two", n0=1000)
    await rm.ask(ask("one", "one"), ask("two", "two"))
    assert (await rm.heard()).keys == ["one"]
    assert (await rm.app("one"))["requests"] == []
    await rm.wait(299)
    assert (await rm.heard()).keys == []
    await rm.wait(1)
    assert (await rm.heard()).keys == ["two"]


@pytest.mark.row(98)
async def test_state_aware_serves_those_that_run_first_and_by_age(rm: ServedRm) -> None:
    """The older of two that run is served first, and both before the one that is let in."""
    await started(rm, leaf(AWARE), "old", "middle", "fresh", n0=500)
    for app_id in ("middle", "old"):
        await rm.ask(ask(f"{app_id}-a", app_id), ask(f"{app_id}-b", app_id))
    assert (await rm.heard()).keys == ["middle-a", "middle-b", "old-a", "old-b"]
    await rm.ask(ask("fill", "middle"))
    assert (await rm.heard()).keys == ["fill"]
    await rm.ask(*(ask(f"{app_id}-c", app_id) for app_id in ("fresh", "middle", "old")))
    order: list[str] = []
    for key, app_id in (("fill", "middle"), ("old-a", "old"), ("middle-a", "middle")):
        await rm.release(key, app_id=app_id)
        order += (await rm.heard()).keys
    assert order == ["old-c", "middle-c", "fresh-c"]


@pytest.mark.row(99)
@pytest.mark.parametrize(
    ("properties", "order"),
    [("", ["urgent", "mild", "first"]), (BY_AGE, ["first", "mild", "urgent"])],
    ids=["enabled", "disabled"],
)
async def test_priority_goes_first_unless_it_is_disabled(
    rm: ServedRm, properties: str, order: list[str]
) -> None:
    """Disabled it breaks ties only: the oldest application is served first."""
    await started(rm, leaf(properties), "first", "mild", "urgent", n0=1000)
    await rm.ask(
        ask("urgent", "urgent", priority=9), ask("mild", "mild", priority=2), ask("first", "first")
    )
    assert (await rm.heard()).keys == order


@pytest.mark.row(100, 101)
async def test_asks_go_by_priority_then_by_age(rm: ServedRm) -> None:
    """Within an application the higher priority comes first, then the older ask."""
    await started(rm, leaf(), "app", n0=1000)
    ages = {"young": 300, "old": 100, "middle": 200}
    await rm.ask(
        *(ask(key, allocationTags={"creationTime": str(time)}) for key, time in ages.items()),
        ask("urgent", priority=1, allocationTags={"creationTime": "400"}),
    )
    assert (await rm.heard()).keys == ["urgent", "old", "middle", "young"]


@pytest.mark.row(103)
async def test_an_application_of_impossible_asks_backs_off(rm: ServedRm) -> None:
    """After two asks that fit nowhere the third is not tried for five seconds, as REST shows."""
    await started(rm, leaf(TIRED), "app", n0=300, n1=300)
    big = [ask(f"big{i}", vcore=301 + i, priority=1) for i in range(2)]
    await rm.ask(*big, ask("small"))
    assert (await rm.heard()).keys == []
    # The clock began at 22:13:20; a second went by before the asks.
    app = await rm.app("app")
    assert app["backoffDeadline"] == "2023-11-14T22:13:26Z"
    tried = {one["allocationKey"]: one["schedulingAttempted"] for one in app["requests"]}
    assert tried == {"big0": True, "big1": True, "small": False}
    await rm.wait(4.9)
    await rm.release("big0")
    assert (await rm.heard()).keys == []
    await rm.wait(0.1)
    assert (await rm.heard()).keys == ["small"]
    assert "backoffDeadline" not in await rm.app("app")
