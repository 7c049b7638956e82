"""What a configuration may say, and what becomes of it, seen from outside (spec §§ 2.1-2.3)."""

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application

GIB = 1024**3


def with_max(sizes: str) -> str:
    """A configuration of a queue with this maximum."""
    return f"partitions: [{{name: default, queues: [{{name: a, resources: {{max: {sizes}}}}}]}}]"


def guarded(acl: str, rest: str = "") -> str:
    """A configuration of a queue with this access list."""
    return f"partitions: [{{name: default, {rest}queues: [{{name: a, submitacl: '{acl}'}}]}}]"


async def refusal(rm: ServedRm, config: str) -> str:
    """Why the registration is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rm.register(config)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details() or ""


@pytest.mark.row(32)
@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ("{vcore: 500m}", {"vcore": 500}),
        ("{vcore: 10}", {"vcore": 10_000}),
        ("{memory: 1Gi}", {"memory": GIB}),
        ("{memory: 1G, gpu: 3k}", {"memory": 10**9, "gpu": 3000}),
    ],
)
async def test_amounts_are_read_with_their_units(
    rm: ServedRm, sizes: str, shown: dict[str, int]
) -> None:
    """Cores are thousandths, memory is bytes, and suffixes are of ten and of two."""
    await rm.register(with_max(sizes))
    assert (await rm.queue("root.a"))["maxResource"] == shown


@pytest.mark.row(32)
@pytest.mark.parametrize(
    "sizes", ["{vcore: 1.5}", "{vcore: -1}", "{memory: 1K}", "{memory: 5m}", "{memory: K}"]
)
async def test_what_is_no_amount_is_refused(rm: ServedRm, sizes: str) -> None:
    """Fractions, signs and suffixes that there are not."""
    assert "invalid" in await refusal(rm, with_max(sizes))


@pytest.mark.row(38)
@pytest.mark.parametrize(
    ("acl", "let_in"),
    [
        ("*", {"ann", "bob", "eve"}),
        ("ann,bob", {"ann", "bob"}),
        (" staff", {"bob", "eve"}),
        ("ann staff", {"ann", "bob", "eve"}),
        ("", set()),
    ],
    ids=["everyone", "users", "groups", "both", "nobody"],
)
async def test_an_access_list_lets_in_whom_it_names(
    rm: ServedRm, acl: str, let_in: set[str]
) -> None:
    """Ann is in no group, bob and eve are staff: those listed may submit, and nobody else."""
    await rm.register(guarded(acl))
    groups = {"ann": ["people"], "bob": ["staff"], "eve": ["others", "staff"]}
    refused = await rm.submit(
        *(
            application(user, "root.a", ugi=si.UserGroupInformation(user=user, groups=listed))
            for user, listed in groups.items()
        )
    )
    assert groups.keys() - refused.keys() == let_in


@pytest.mark.row(38)
async def test_an_access_list_of_three_parts_is_refused(rm: ServedRm) -> None:
    """Users and groups are all there is."""
    assert "multiple spaces found in ACL: 'a b c'" in await refusal(rm, guarded("a b c"))


@pytest.mark.row(45)
@pytest.mark.parametrize(
    ("flag", "enabled"),
    [
        ("", True),
        ("preemption: {enabled: false}, ", False),
        ("preemption: {enabled: true}, ", True),
    ],
    ids=["unset", "false", "true"],
)
async def test_preemption_is_on_unless_it_is_switched_off(
    rm: ServedRm, flag: str, *, enabled: bool
) -> None:
    """The partition shows what is in force."""
    await rm.register(guarded("*", flag))
    [shown] = await rm.partitions()
    assert shown["preemptionEnabled"] is enabled


@pytest.mark.row(45)
async def test_preemption_is_on_or_off_and_nothing_else(rm: ServedRm) -> None:
    """A number or a text is refused."""
    for flag in ("1", "'true'", "maybe"):
        reason = await refusal(rm, guarded("*", f"preemption: {{enabled: {flag}}}, "))
        assert "expected true or false" in reason
