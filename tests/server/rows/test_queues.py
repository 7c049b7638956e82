"""What queues may have and which comes first, seen from outside (spec § 4)."""

from collections import Counter

import pytest

from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node, resource


def below_root(queues: str, rest: str = "") -> str:
    """A configuration of queues below an open root."""
    return (
        f"partitions:\n  - name: default\n{rest}"
        f"    queues: [{{name: root, submitacl: '*', queues: [{queues}]}}]\n"
    )


async def cluster(rm: ServedRm, queues: str, vcore: int, **apps: str) -> None:
    """One node, and applications by name, each in its queue."""
    await rm.register(below_root(queues), n0=vcore)
    await rm.submit(*(application(app_id, path) for app_id, path in apps.items()))


async def endless(rm: ServedRm, *app_ids: str, count: int = 60, vcore: int = 100) -> Counter[str]:
    """How many of many asks each application gets."""
    await rm.ask(*(ask(f"{app_id}-{i}", app_id, vcore) for i in range(count) for app_id in app_ids))
    return Counter(key.partition("-")[0] for key in (await rm.heard()).keys)


@pytest.mark.row(33)
async def test_no_amount_of_a_type_forbids_it(rm: ServedRm) -> None:
    """Where memory may be had and no graphics card, asks for cards never run."""
    await rm.register(below_root("{name: a, resources: {max: {gpu: 0, memory: 10}}}"))
    await rm.submit(application("app", "root.a"))
    await rm.tell_nodes(node("n0", vcore=1000, memory=100, gpu=8))
    await rm.ask(
        ask("card", resourcePerAlloc=resource(memory=1, gpu=1)),
        ask("plain", resourcePerAlloc=resource(memory=10)),
    )
    assert (await rm.heard()).keys == ["plain"]
    await rm.release("plain")
    await rm.wait(3600)
    assert (await rm.heard()).keys == []


@pytest.mark.row(34)
async def test_a_type_that_max_does_not_name_is_not_limited(rm: ServedRm) -> None:
    """Memory is bounded, and the queue has all cores of the cluster."""
    await cluster(rm, "{name: a, resources: {max: {memory: 10}}}", 1000, app="root.a")
    await rm.tell_nodes(node("n1", memory=100))
    assert await endless(rm, "app") == {"app": 10}
    await rm.ask(*(ask(f"m{i}", resourcePerAlloc=resource(memory=6)) for i in range(2)))
    assert (await rm.heard()).keys == ["m0"]


@pytest.mark.row(86)
async def test_a_parent_bounds_its_leaves_together(rm: ServedRm) -> None:
    """Two leaves that may each have ten have ten together, when that is their parent's maximum."""
    ten = "resources: {max: {vcore: 1}}"
    below = f"{{name: a, {ten}}}, {{name: b, {ten}}}"
    await cluster(
        rm, f"{{name: p, {ten}, queues: [{below}]}}", 5000, one="root.p.a", two="root.p.b"
    )
    assert sum((await endless(rm, "one", "two")).values()) == 10
    assert await rm.used("root.p") == (1000, 11_000)
    await rm.release("one-0", app_id="one")
    assert len((await rm.heard()).keys) == 1
    assert (await rm.used("root.p"))[0] == 1000


@pytest.mark.row(87)
async def test_siblings_share_by_their_guarantees(rm: ServedRm) -> None:
    """Of endless asks a leaf with three times the guarantee gets three times as many."""
    queues = ", ".join(
        f"{{name: {name}, resources: {{guaranteed: {{vcore: {vcore}}}}}}}"
        for name, vcore in (("a", 1), ("b", 3))
    )
    await cluster(rm, queues, 2000, one="root.a", two="root.b")
    assert await endless(rm, "one", "two") == {"one": 5, "two": 15}


@pytest.mark.row(88)
async def test_siblings_without_guarantee_share_alike(rm: ServedRm) -> None:
    """Two leaves without any get the same."""
    await cluster(rm, "{name: a}, {name: b}", 2000, one="root.a", two="root.b")
    assert await endless(rm, "one", "two") == {"one": 10, "two": 10}


@pytest.mark.row(89)
@pytest.mark.parametrize(
    ("properties", "first"),
    [("", ["urgent"] * 4), ("application.sort.priority: disabled", ["mild", "urgent"] * 2)],
    ids=["enabled", "disabled"],
)
async def test_the_more_urgent_leaf_comes_first(
    rm: ServedRm, properties: str, first: list[str]
) -> None:
    """Unless priority is disabled above: then the fair share counts."""
    parent = f"{{name: p, properties: {{{properties}}}, queues: [{{name: a}}, {{name: b}}]}}"
    await cluster(rm, parent, 400, mild="root.p.a", urgent="root.p.b")
    await rm.ask(
        *(ask(f"mild-{i}", "mild") for i in range(4)),
        *(ask(f"urgent-{i}", "urgent", priority=5) for i in range(4)),
    )
    keys = (await rm.heard()).keys
    assert sorted(key.partition("-")[0] for key in keys) == sorted(first)


@pytest.mark.row(90)
@pytest.mark.parametrize(
    ("properties", "first"),
    [
        ("", "b"),
        ("priority.offset: '10'", "a"),
        ("priority.policy: fence", "b"),
        ("priority.policy: fence, priority.offset: '10'", "a"),
    ],
    ids=["nothing", "offset", "fence", "fence with offset"],
)
async def test_offsets_and_fences(rm: ServedRm, properties: str, first: str) -> None:
    """An offset lifts a queue above its sibling; what is urgent behind a fence stays there."""
    queues = f"{{name: a, properties: {{{properties}}}, queues: [{{name: x}}]}}, {{name: b}}"
    await cluster(rm, queues, 100, one="root.a.x", two="root.b")
    urgent = 9 if "fence" in properties else 1
    await rm.ask(ask("a", "one", priority=urgent), ask("b", "two", priority=2))
    assert (await rm.heard()).keys == [first]


@pytest.mark.row(102)
async def test_parents_are_always_fair(rm: ServedRm) -> None:
    """A sort policy of a parent is for nobody: its leaves share, whoever was there first."""
    parent = (
        "{name: p, properties: {application.sort.policy: fifo}, queues: [{name: a}, {name: b}]}"
    )
    await cluster(rm, parent, 1000, one="root.p.a")
    await rm.wait(60)
    await rm.submit(application("two", "root.p.b"))
    assert await endless(rm, "one", "two") == {"one": 5, "two": 5}


@pytest.mark.row(104)
async def test_an_empty_dynamic_queue_disappears(rm: ServedRm) -> None:
    """Within ten seconds, and not while an application is in it; a configured one stays."""
    rules = "    placementrules: [{name: tag, value: namespace, create: true}]\n"
    await rm.register(below_root("{name: a}", rules), n0=1000)
    await rm.submit(application("app"))
    await rm.wait(60)
    assert (await rm.queue("root"))["childNames"] == ["root.a", "root.ns"]
    await rm.remove("app")
    await rm.wait(10)
    assert (await rm.queue("root"))["childNames"] == ["root.a"]
