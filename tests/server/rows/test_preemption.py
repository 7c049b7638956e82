"""Preemption seen from outside: when, of whom, and what comes of it (spec § 9)."""

from collections.abc import Iterable
from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask

PREEMPTED = "PREEMPTED_BY_SCHEDULER"
DELAY = 10
WHILE = 60
"""Seconds in which everything has been tried more than once."""


def config(queues: str, *, preemption: str = "") -> str:
    """Queues, each in a line, and what the partition says of preemption, if anything."""
    said = f"\n    preemption: {{{preemption}}}" if preemption else ""
    lines = "".join(f"\n          - {line}" for line in queues.strip().splitlines())
    return f"""
partitions:
  - name: default{said}
    queues:
      - name: root
        submitacl: "*"
        properties: {{preemption.delay: {DELAY}s}}
        queues:{lines}
"""


def task(key: str, app_id: str, vcore: int = 100, **fields: Any) -> si.Allocation:
    """An ask that may be preempted and may preempt others."""
    policy = si.PreemptionPolicy(allowPreemptSelf=True, allowPreemptOther=True)
    fields.setdefault("preemptionPolicy", policy)
    return ask(key, app_id, vcore, **fields)


def tasks(app_id: str, count: int, **fields: Any) -> list[si.Allocation]:
    """So many of one size, with keys from the id of the application."""
    return [task(f"{app_id}{number}", app_id, **fields) for number in range(1, count + 1)]


async def run(rm: ServedRm, *asks: si.Allocation) -> None:
    """Ask, and see all of it placed."""
    await rm.ask(*asks)
    assert sorted((await rm.heard()).keys) == sorted(item.allocationKey for item in asks)


async def told_to_stop(rm: ServedRm) -> list[str]:
    """Whom the RM was told to stop since last time, and nothing else."""
    heard = await rm.heard()
    assert heard.new == []
    assert {why for _, why, _ in heard.released} <= {PREEMPTED}
    return sorted(key for key, _, _ in heard.released)


async def confirm(rm: ServedRm, keys: Iterable[str], app_id: str) -> list[str]:
    """The RM has stopped them; the keys that are placed then."""
    await rm.release(*keys, app_id=app_id, why=si.PREEMPTED_BY_SCHEDULER)
    heard = await rm.heard()
    assert heard.released == []
    return heard.keys


SHARED = config("""
{name: rich, resources: {guaranteed: {vcore: 500m}, max: {vcore: 1000m}}}
{name: poor, resources: {guaranteed: {vcore: 500m}, max: {vcore: 1000m}}}
""")


async def shared(rm: ServedRm, text: str = SHARED) -> None:
    """Of 12 places `rich` has 10 and `poor` has 2, and asks for 6 more."""
    await rm.register(text, n1=400, n2=400, n3=400)
    await rm.submit(application("rich", "root.rich"), application("poor", "root.poor"))
    await run(rm, *tasks("rich", 10), *tasks("poor", 2))
    await rm.ask(*(task(f"more{number}", "poor") for number in range(6)))


@pytest.mark.row(12, 140, 141, 142, 145, 148)
async def test_two_queues_come_to_what_they_are_guaranteed(rm: ServedRm) -> None:
    """Not before the delay, and not before the RM confirms, 10 and 2 of 5 each become 7 and 5."""
    await shared(rm)
    await rm.wait(DELAY - 1)
    assert await told_to_stop(rm) == []
    await rm.wait(1)
    victims = await told_to_stop(rm)
    assert len(victims) == 3
    assert all(key.startswith("rich") for key in victims)
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []
    assert await rm.used("root.rich") == (1000, 0)
    assert await rm.used("root.poor") == (200, 600)
    assert sorted(await confirm(rm, victims, "rich")) == ["more0", "more1", "more2"]
    assert await rm.used("root.rich") == (700, 0)
    assert await rm.used("root.poor") == (500, 300)
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []


@pytest.mark.row(151)
async def test_a_victim_says_for_whom_it_goes(rm: ServedRm) -> None:
    """In the message to the RM, in an event, and in what REST shows of both queues."""
    await shared(rm)
    await rm.wait(DELAY)
    released = (await rm.heard()).released
    assert {message for _, _, message in released} == {
        f"preempting allocations to free up resources to run ask: more{n}" for n in range(3)
    }
    assert (await rm.queue("root.rich"))["preemptingResource"] == {"vcore": 300}
    assert (await rm.queue("root.poor"))["preemptingResource"].get("vcore", 0) == 0
    for key, _, message in released:
        by = message.rpartition(" ")[2]
        said = f"Preempted by {by} from application poor in root.poor"
        assert said in await rm.messages(key)


@pytest.mark.row(45, 154)
async def test_a_partition_that_does_not_preempt_stops_nobody(rm: ServedRm) -> None:
    """Somebody goes as soon as it does, and as soon as nothing is said about it."""
    queues = """
{name: rich, resources: {guaranteed: {vcore: 500m}}}
{name: poor, resources: {guaranteed: {vcore: 500m}}}
"""
    await shared(rm, config(queues, preemption="enabled: false"))
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []
    await rm.reload(config(queues))
    await rm.wait(WHILE)
    assert len(await told_to_stop(rm)) == 3


LAWS = config("""
{name: own, resources: {guaranteed: {vcore: 300m}}}
{name: exact, resources: {guaranteed: {vcore: 200m}}}
{name: odd, resources: {guaranteed: {vcore: 150m}}}
{name: quiet, properties: {preemption.policy: disabled}}
{name: above, properties: {priority.offset: "1"}}
{name: spare}
""")


@pytest.fixture
async def full(rm: ServedRm) -> ServedRm:
    """A node of 1000 with 200 of each queue but `spare`; `own` is due 100 more, and asks for it.

    One of `own` is of low priority. `exact` has what it is guaranteed, and `odd` would have less if
    it lost one. `quiet` and `above` are guaranteed nothing.
    """
    await rm.register(LAWS, n1=1000)
    names = ("own", "exact", "odd", "quiet", "above")
    await rm.submit(*(application(name, f"root.{name}") for name in (*names, "spare")))
    for name in names[1:]:
        await run(rm, *tasks(name, 2))
    await run(rm, task("own1", "own", priority=-1), task("own2", "own"))
    await rm.ask(task("wants", "own"))
    return rm


@pytest.mark.row(139, 140, 142, 143, 146, 150)
async def test_nobody_goes_whom_a_law_protects(full: ServedRm) -> None:
    """Of its own queue, at its guarantee, or of more priority: nobody goes, but from `spare`."""
    await full.wait(WHILE)
    assert await told_to_stop(full) == []
    await full.release("above1", app_id="above")
    assert (await full.heard()).keys == ["wants"]
    await full.release("wants", app_id="own")
    await run(full, task("spare1", "spare"))
    await full.ask(task("again", "own"))
    await full.wait(WHILE)
    assert await told_to_stop(full) == ["spare1"]
    assert await confirm(full, ["spare1"], "spare") == ["again"]


@pytest.mark.row(141)
async def test_a_queue_with_its_guarantee_has_nobody_stopped(full: ServedRm) -> None:
    """It asks for more although a queue that is guaranteed nothing runs what could go."""
    await full.release("above1", app_id="above")
    assert (await full.heard()).keys == ["wants"]
    await full.release("above2", app_id="above")
    await run(full, task("spare1", "spare"))
    await full.ask(task("more", "own"))
    await full.wait(WHILE)
    assert await told_to_stop(full) == []
    await full.release("own1", app_id="own")
    assert (await full.heard()).keys == ["more"]


@pytest.mark.row(143)
async def test_equal_priority_is_enough(full: ServedRm) -> None:
    """Of the queue with an offset one goes for an ask whose own priority makes up for that."""
    await full.ask(task("equal", "own", priority=1))
    await full.wait(WHILE)
    [victim] = await told_to_stop(full)
    assert victim.startswith("above")
    assert await confirm(full, [victim], "above") == ["equal"]


@pytest.mark.row(144)
async def test_a_fence_binds_those_inside(rm: ServedRm) -> None:
    """Who is inside takes nothing outside; who is outside and below its guarantee takes inside."""
    due = "resources: {guaranteed: {vcore: 200m}}"
    await rm.register(
        config(f"""
{{name: f, properties: {{preemption.policy: fence}}, queues: [{{name: x, {due}}}]}}
{{name: out, {due}}}
{{name: spare}}
"""),
        n1=400,
    )
    await rm.submit(
        application("x", "root.f.x"),
        application("out", "root.out"),
        application("spare", "root.spare"),
    )
    await run(rm, *tasks("spare", 4))
    await rm.ask(task("x1", "x"))
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []
    await rm.release(*(f"spare{number}" for number in range(1, 5)), app_id="spare")
    assert (await rm.heard()).keys == ["x1"]
    await run(rm, *(task(f"x{number}", "x") for number in range(2, 5)))
    await rm.ask(task("out1", "out"))
    await rm.wait(WHILE)
    [victim] = await told_to_stop(rm)
    assert await confirm(rm, [victim], "x") == ["out1"]


@pytest.mark.row(147)
async def test_a_scavenger_loses_what_others_are_due(rm: ServedRm) -> None:
    """Queues that are short take from it, and leave it what little it is guaranteed."""
    await rm.register(
        config("""
{name: a, resources: {guaranteed: {vcore: 200m}}}
{name: b, resources: {guaranteed: {vcore: 200m}}}
{name: scavenger, resources: {guaranteed: {vcore: 100m}}}
"""),
        n1=200,
        n2=200,
        n3=200,
    )
    await rm.submit(*(application(name, f"root.{name}") for name in ("a", "b", "scavenger")))
    await run(rm, *tasks("b", 2))
    await run(rm, *tasks("scavenger", 4))
    await rm.ask(*tasks("a", 4))
    await rm.wait(WHILE)
    victims = await told_to_stop(rm)
    assert len(victims) == 2
    assert all(key.startswith("scavenger") for key in victims)
    assert sorted(await confirm(rm, victims, "scavenger")) == ["a1", "a2"]
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []


@pytest.mark.row(149)
async def test_who_wants_to_go_goes_first(rm: ServedRm) -> None:
    """The youngest of those; then who started the application; who does not want to goes last."""
    await rm.register(
        config("""
{name: a, resources: {guaranteed: {vcore: 400m}}}
{name: b}
"""),
        n1=400,
    )
    await rm.submit(application("a", "root.a"), application("b", "root.b"))
    for key, fields in (
        ("older", {}),
        ("younger", {}),
        ("driver", {"originator": True}),
        ("unwilling", {"preemptionPolicy": si.PreemptionPolicy()}),
    ):
        await run(rm, task(key, "b", **fields))
        await rm.wait(5)
    for number, victim in enumerate(("younger", "older", "driver", "unwilling")):
        await rm.ask(task(f"a{number}", "a"))
        await rm.wait(WHILE)
        assert await told_to_stop(rm) == [victim]
        assert await confirm(rm, [victim], "b") == [f"a{number}"]


@pytest.mark.row(152, 154)
async def test_a_daemon_gets_its_node(rm: ServedRm) -> None:
    """With preemption off, too; once, and never from what is of higher priority."""
    await rm.register(config("{name: a}", preemption="enabled: false"), n1=300, n2=300)
    await rm.submit(application("a", "root.a"), application("daemons", "root.a"))
    pinned = {"yunikorn.apache.org/requiredNode": "n1"}
    vital = task("vital", "a", 200, priority=9, nodeID="n1")
    await run(rm, vital, task("near", "a", nodeID="n1"))
    for key, vcore in (("d1", 100), ("d2", 200)):
        await rm.ask(task(key, "daemons", vcore, allocationTags=pinned))
    heard = await rm.heard()
    message = "preempting allocations to free up resources to run daemon set ask: d1"
    assert heard.released == [("near", PREEMPTED, message)]
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []
    assert await confirm(rm, ["near"], "a") == ["d1"]
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []


@pytest.mark.row(153)
async def test_a_lowered_maximum_is_enforced_after_its_delay(rm: ServedRm) -> None:
    """Usage falls to it, if the partition says so and the queue has a delay; an event tells."""

    def lowered(limit: int) -> str:
        most = f"resources: {{max: {{vcore: {limit}m}}}}"
        return config(
            f"""
{{name: a, {most}, properties: {{quota.preemption.delay: 5s}}}}
{{name: b, {most}}}
""",
            preemption="quotapreemptionenabled: true",
        )

    await rm.register(lowered(400), n1=800)
    await rm.submit(application("a", "root.a"), application("b", "root.b"))
    await run(rm, *tasks("a", 4), *tasks("b", 4))
    await rm.reload(lowered(200))
    await rm.wait(4)
    assert await told_to_stop(rm) == []
    await rm.wait(1)
    victims = await told_to_stop(rm)
    assert len(victims) == 2
    assert await confirm(rm, victims, "a") == []
    assert await rm.used("root.a") == (200, 0)
    assert await rm.events("QUEUE_PREEMPTION") == [("QUEUE_PREEMPTION", "root.a")]
    await rm.wait(WHILE)
    assert await told_to_stop(rm) == []
    assert await rm.used("root.b") == (400, 0)
