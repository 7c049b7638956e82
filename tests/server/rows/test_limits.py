"""What users and groups may have, seen from outside (spec § 10)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask

QUEUES = "{name: a}, {name: b}"
ANN = "{limit: l, users: [ann], maxresources: {vcore: 300m}}"
STAFF = "{limit: l, groups: [staff], maxresources: {vcore: 500m}}"
WILD = "{limit: l, users: ['*'], maxresources: {vcore: 200m}}"
TWO_APPS = "{limit: l, users: [ann], maxapplications: 2}"


def at_root(*limits: str, queues: str = QUEUES) -> str:
    """A configuration with limits of the root queue."""
    return (
        "partitions:\n"
        "  - name: default\n"
        f"    queues: [{{name: root, submitacl: '*', limits: [{', '.join(limits)}], "
        f"queues: [{queues}]}}]\n"
    )


def at_partition(*limits: str) -> str:
    """A configuration with limits of the partition."""
    return (
        "partitions:\n"
        "  - name: default\n"
        f"    limits: [{', '.join(limits)}]\n"
        f"    queues: [{{name: root, submitacl: '*', queues: [{QUEUES}]}}]\n"
    )


def of(user: str, app_id: str, queue: str = "root.a", *groups: str) -> si.AddApplicationRequest:
    """An application of a user."""
    return application(app_id, queue, ugi=si.UserGroupInformation(user=user, groups=groups))


async def greedy(rm: ServedRm, *app_ids: str) -> dict[str, int]:
    """Milli-cores that each application gets when all ask for more than anybody may have."""
    for number in range(10):
        await rm.ask(*(ask(f"{app_id}-{number}", app_id) for app_id in app_ids))
    await rm.heard()
    return {app_id: (await rm.app(app_id))["usedResource"].get("vcore", 0) for app_id in app_ids}


@pytest.mark.row(155)
async def test_each_user_of_a_limit_has_it_whole(rm: ServedRm) -> None:
    """A limit for two users lets the one and the other reach it."""
    await rm.register(at_root(ANN.replace("[ann]", "[sue, bob]")), n0=10_000)
    await rm.submit(of("sue", "one"), of("bob", "two"), of("eve", "free"))
    assert await greedy(rm, "one", "two", "free") == {"one": 300, "two": 300, "free": 1000}


@pytest.mark.row(156)
async def test_members_of_a_group_share_its_limit(rm: ServedRm) -> None:
    """Together they do not exceed it; who is in no group has as much as there is."""
    await rm.register(at_root(STAFF), n0=10_000)
    await rm.submit(of("sue", "one", "root.a", "staff"), of("bob", "two", "root.b", "staff"))
    await rm.submit(of("eve", "free"))
    found = await greedy(rm, "one", "two", "free")
    assert found.pop("free") == 1000
    assert sum(found.values()) == 500
    assert min(found.values()) > 0
    group = await rm.get("usage/group/staff")
    assert group["applications"] == ["one", "two"]
    assert group["queues"]["resourceUsage"] == {"vcore": 500}


@pytest.mark.row(157)
async def test_the_wildcard_is_for_each_user_not_named(rm: ServedRm) -> None:
    """Who has a limit of their own has that, everybody else the wildcard's by themselves."""
    await rm.register(at_root(ANN, WILD), n0=10_000)
    await rm.submit(of("ann", "named"), of("bob", "one"), of("eve", "two"))
    assert await greedy(rm, "named", "one", "two") == {"named": 300, "one": 200, "two": 200}


@pytest.mark.row(158)
async def test_a_limit_counts_all_queues_below(rm: ServedRm) -> None:
    """What a user has in one queue is missing in the other; a tighter limit below holds as well."""
    tight = ANN.replace("300m", "100m")
    await rm.register(at_root(ANN, queues=f"{{name: a}}, {{name: b, limits: [{tight}]}}"), n0=9999)
    await rm.submit(of("ann", "in-b", "root.b"), of("ann", "in-a", "root.a"))
    assert await greedy(rm, "in-b", "in-a") == {"in-b": 100, "in-a": 200}


@pytest.mark.row(36)
@pytest.mark.parametrize("config", [at_root(ANN), at_partition(ANN)], ids=["root", "partition"])
async def test_limits_of_the_partition_are_those_of_root(rm: ServedRm, config: str) -> None:
    """Written here or there a limit holds over all queues, and shows up at the root queue."""
    await rm.register(config, n0=10_000)
    await rm.submit(of("ann", "one", "root.a"), of("ann", "two", "root.b"))
    assert sum((await greedy(rm, "one", "two")).values()) == 300
    shown = (await rm.get("usage/user/ann"))["queues"]
    assert (shown["queuePath"], shown["maxResources"]) == ("root", {"vcore": 300})


@pytest.mark.row(159)
async def test_the_third_application_of_a_user_waits(rm: ServedRm) -> None:
    """It stays Accepted with its event, other users' start, and it follows when one ends."""
    await rm.register(at_root(TWO_APPS), n0=10_000)
    await rm.submit(
        *(of("ann", app_id) for app_id in ("app-1", "app-2", "app-3")), of("bob", "app-4")
    )
    await rm.ask(*(ask(app_id, app_id) for app_id in ("app-1", "app-2", "app-3", "app-4")))
    assert (await rm.heard()).keys == ["app-1", "app-2", "app-4"]
    assert (await rm.app("app-3"))["applicationState"] == "Accepted"
    waits = ("APP_CANNOTRUN_QUOTA", "app-3")
    runs = ("APP_RUNNABLE_QUOTA", "app-3")
    assert await rm.events(waits[0], runs[0]) == [waits]
    await rm.remove("app-1")
    assert (await rm.heard()).keys == ["app-3"]
    assert await rm.events(waits[0], runs[0]) == [waits, runs]


@pytest.mark.row(160)
@pytest.mark.parametrize(
    ("limit", "raised", "more"),
    [
        (ANN, ANN.replace("300m", "500m"), 2),
        (STAFF, STAFF.replace("500m", "600m"), 1),
        (WILD, WILD.replace("200m", "400m"), 2),
        (WILD, f"{ANN}, {WILD}", 1),
    ],
    ids=["user", "group", "wildcard", "named beside the wildcard"],
)
async def test_a_raised_limit_lets_waiting_asks_run(
    rm: ServedRm, limit: str, raised: str, more: int
) -> None:
    """At once, as many as the new limit has room for, and no more."""
    await rm.register(at_root(limit), n0=10_000)
    await rm.submit(of("ann", "app", "root.a", "staff"))
    await greedy(rm, "app")
    await rm.reload(at_root(raised))
    assert len((await rm.heard()).keys) == more


@pytest.mark.row(160)
async def test_a_raised_number_of_applications_lets_the_next_start(rm: ServedRm) -> None:
    """The application that waited in Accepted runs after the reload."""
    await rm.register(at_root(TWO_APPS), n0=10_000)
    await rm.submit(*(of("ann", app_id) for app_id in ("app-1", "app-2", "app-3", "app-4")))
    await rm.ask(*(ask(app_id, app_id) for app_id in ("app-1", "app-2", "app-3", "app-4")))
    assert (await rm.heard()).keys == ["app-1", "app-2"]
    await rm.reload(at_root(TWO_APPS.replace("2", "3")))
    assert (await rm.heard()).keys == ["app-3"]
