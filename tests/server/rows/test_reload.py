"""Another configuration while things run, seen from outside (spec § 2.7)."""

import grpc
import pytest
from structlog.testing import capture_logs

from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask

OTHER = "{name: gpu, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}"


def config(*queues: str, rest: str = "", partition: str = OTHER) -> str:
    """Two partitions; the queues and more settings of the default one."""
    root = f"{{name: root, submitacl: '*', queues: [{', '.join(queues)}]}}"
    return f"partitions:\n  - {{name: default, {rest}queues: [{root}]}}\n  - {partition}\n"


A, B = "{name: a}", "{name: b}"
BOUNDED = "{name: a, resources: {max: {vcore: 200m}}}"


@pytest.fixture
async def running(rm: ServedRm) -> ServedRm:
    """Queues a and b, and an application in root.a that runs."""
    await rm.register(config(BOUNDED, B), n0=1000)
    await rm.submit(application("app", "root.a"))
    await rm.ask(ask("k0"))
    await rm.heard()
    return rm


async def names(rm: ServedRm) -> list[str]:
    """The queues below root."""
    found: list[str] = (await rm.queue("root"))["childNames"]
    return found


async def refused(rm: ServedRm, text: str) -> str:
    """Why an update is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rm.reload(text)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details() or ""


@pytest.mark.row(49)
async def test_a_new_queue_can_be_used_at_once(running: ServedRm) -> None:
    """What was refused before the reload is taken and runs after it."""
    new = application("new", "root.c")
    assert "no placement rule matched" in (await running.submit(new))["new"]
    await running.reload(config(BOUNDED, B, "{name: c}"))
    assert await running.submit(new) == {}
    await running.ask(ask("k1", "new"))
    assert (await running.heard()).keys == ["k1"]


@pytest.mark.row(50)
async def test_a_removed_queue_drains_and_goes(running: ServedRm) -> None:
    """Who runs in it goes on, nobody new comes in, and ten seconds after it is empty it is gone."""
    await running.reload(config(B))
    assert (await running.queue("root.a"))["status"] == "Draining"
    await running.ask(ask("k1"))
    assert (await running.heard()).keys == ["k1"]
    assert (
        "no placement rule matched" in (await running.submit(application("new", "root.a")))["new"]
    )
    await running.wait(60)
    assert await names(running) == ["root.a", "root.b"]
    await running.remove("app")
    await running.wait(10)
    assert await names(running) == ["root.b"]


@pytest.mark.row(51)
async def test_a_draining_queue_that_comes_back_is_active(running: ServedRm) -> None:
    """It takes applications again, and does not go when it is empty."""
    await running.reload(config(B))
    await running.reload(config(A, B))
    assert (await running.queue("root.a"))["status"] == "Active"
    assert await running.submit(application("new", "root.a")) == {}
    await running.remove("app", "new")
    await running.wait(60)
    assert await names(running) == ["root.a", "root.b"]


@pytest.mark.row(52)
async def test_a_raised_maximum_lets_waiting_asks_run(running: ServedRm) -> None:
    """As many as there is room for, at once; a lowered one lets nothing in and kills nothing."""
    await running.ask(*(ask(f"k{number}") for number in range(1, 9)))
    assert (await running.heard()).keys == ["k1"]
    await running.reload(config(BOUNDED.replace("200m", "400m"), B))
    assert (await running.heard()).keys == ["k2", "k3"]
    await running.reload(config(BOUNDED.replace("200m", "100m"), B))
    await running.release("k0", "k1")
    heard = await running.heard()
    assert (heard.keys, [item[0] for item in heard.released]) == ([], ["k0", "k1"])
    await running.release("k2", "k3")
    assert (await running.heard()).keys == ["k4"]


@pytest.mark.row(53)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (OTHER.replace("name: a", "name: x.y"), "found 'x.y'"),
        (OTHER.replace("name: a", "name: a, queues: [{name: below}]"), "root.a"),
    ],
    ids=["wrong in itself", "wrong for what runs"],
)
async def test_an_error_in_the_second_partition_leaves_the_first_unchanged(
    running: ServedRm, wrong: str, reason: str
) -> None:
    """Neither its queues nor its limits, nor its rules are those of the refused configuration."""
    await running.submit(application("there", "root.a", partitionName="gpu"))
    before = await running.get("queues")
    bigger = BOUNDED.replace("200m", "400m")
    limit = "limits: [{limit: l, users: [tester], maxapplications: 1}], "
    assert reason in await refused(
        running, config(bigger, "{name: c}", rest=limit, partition=wrong)
    )
    assert await running.get("queues") == before
    await running.submit(application("second", "root.b"))
    await running.ask(ask("k1"), ask("k2"), ask("k3", "second"))
    assert (await running.heard()).keys == ["k3", "k1"]


@pytest.mark.row(54)
async def test_broken_rules_leave_the_old_ones_in_force(rm: ServedRm) -> None:
    """The update fails and is in the log; applications are placed as before."""
    old = "placementrules: [{name: fixed, value: a}], "
    await rm.register(config(A, B, rest=old), n0=1000)
    broken = "placementrules: [{name: fixed, value: b}, {name: nonsense}], "
    with capture_logs() as lines:
        assert "nonsense" in await refused(rm, config(A, B, rest=broken))
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
        "configuration refused"
    ]
    assert await rm.submit(application("app")) == {}
    assert (await rm.app("app"))["queueName"] == "root.a"
    await rm.reload(config(A, B, rest=old.replace("value: a", "value: b")))
    assert await rm.submit(application("later")) == {}
    assert (await rm.app("later"))["queueName"] == "root.b"


@pytest.mark.row(57)
async def test_a_removed_partition_takes_no_application(running: ServedRm) -> None:
    """New ones are refused as it is stopped; the other partition goes on."""
    there = application("there", "root.a", partitionName="gpu")
    assert await running.submit(there) == {}
    default = config(BOUNDED, B).rsplit("  - ", 1)[0]
    await running.reload(default)
    late = application("late", "root.a", partitionName="gpu")
    assert await running.submit(late) == {
        "late": "partition [rm]gpu is stopped cannot add a new application late"
    }
    await running.ask(ask("k1"))
    assert (await running.heard()).keys == ["k1"]
