"""Where an application goes, seen from outside (spec §§ 2.3, 3)."""

from collections.abc import Mapping
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application

BELOW = "{name: a}, {name: b}, {name: p, parent: true}"
OPEN = f"queues: [{{name: root, submitacl: '*', queues: [{BELOW}]}}]"
WITH_DEFAULT = OPEN.replace("{name: b}", "{name: default}")
NO_MATCH = "application rejected: no placement rule matched"
NAMESPACE = "{name: tag, value: namespace"
SAMPLE_1 = """
placementrules:
  - {name: user, create: true, filter: {type: allow, groups: ["dev*"]},
     parent: [{name: tag, value: namespace}]}
  - {name: tag, value: namespace, create: true, filter: {type: allow, users: [john]},
     parent: [{name: fixed, value: root.namespaces}]}
  - {name: fixed, value: root.default}
queues:
  - name: root
    submitacl: '*'
    queues: [{name: namespaces, parent: true}, {name: newapp, parent: true}, {name: default}]
"""
SAMPLE_2 = """
placementrules:
  - {name: fixed, value: root.production}
  - {name: user, create: true, parent: {name: fixed, value: users}}
queues:
  - {name: production, submitacl: "john,bob"}
  - {name: users, parent: true, submitacl: '*'}
"""
GUARDED = """
queues:
  - name: root
    queues:
      - {name: mine, submitacl: ann}
      - {name: run, adminacl: ann, queues: [{name: below}]}
      - {name: closed}
"""


def partition(settings: str) -> str:
    """A configuration of one partition with these settings."""
    lines = "".join(f"    {line}\n" for line in settings.strip().splitlines())
    return f"partitions:\n  - name: default\n{lines}"


def by(*rules: str, queues: str = OPEN) -> str:
    """Settings with these rules."""
    return f"placementrules: [{', '.join(rules)}]\n{queues}"


def app(
    queue: str = "",
    user: str = "ann",
    groups: tuple[str, ...] = (),
    tags: Mapping[str, str] | None = None,
) -> si.AddApplicationRequest:
    """An application of a user, with tags."""
    ugi = si.UserGroupInformation(user=user, groups=groups)
    return application("app", queue, ugi=ugi, tags=tags or {})


def row(number: int, *values: Any, name: str) -> Any:
    """The parameters of one test, and the row that it is for."""
    return pytest.param(*values, marks=pytest.mark.row(number), id=f"{number} {name}")


def ns(name: str) -> dict[str, str]:
    """The tag of a namespace."""
    return {"namespace": name}


FIXED_A, FIXED_B = "{name: fixed, value: a}", "{name: fixed, value: b}"
BELOW_P = "parent: {name: fixed, value: p}"
LONG = "x" * 65
LETTERS = "max 64 characters consisting of alphanumeric characters and '-', '_', '#', '@', '/', ':'"
PLACED = [
    row(59, by(FIXED_A, FIXED_B), app(), "root.a", name="the first rule that matches"),
    row(59, by(f"{NAMESPACE}}}", FIXED_B), app(), "root.b", name="the next when one does not"),
    row(61, by("{name: provided}", queues=WITH_DEFAULT), app("root.x"), "root.default", name=""),
    row(62, OPEN, app("root.a"), "root.a", name="no rules and a queue"),
    row(
        63,
        by("{name: provided, create: true, parent: {name: user, create: true, "
           "parent: {name: fixed, value: p}}}"),
        app("my_special_queue", "developer"),
        "root.p.developer.my_special_queue",
        name="provided below user",
    ),
    row(
        64,
        by("{name: provided, create: true, parent: {name: user, create: true}}"),
        app("root.dev_queue"),
        "root.dev_queue",
        name="qualified without parent",
    ),
    row(
        65, by("{name: user, create: true}"), app(user="finance.test"), "root.finance_dot_test",
        name="dots",
    ),
    row(66, by("{name: user}", FIXED_B), app(), "root.b", name="a user without a queue"),
    row(66, by("{name: user}", FIXED_B), app(user="a"), "root.a", name="a user with a queue"),
    row(
        67, by("{name: fixed, value: last_resort, create: true}"), app(), "root.last_resort",
        name="",
    ),
    row(70, by(f"{NAMESPACE}, create: true}}", FIXED_B), app(tags=ns("testing")), "root.testing",
        name="tag"),
    row(70, by(f"{NAMESPACE}, create: true}}", FIXED_B), app(), "root.b", name="no tag"),
    row(71, by(f"{NAMESPACE}, create: true, {BELOW_P}}}"), app(tags=ns("root.p.x.y")),
        "root.p.x.y", name="qualified"),
    row(71, by(f"{NAMESPACE}, create: true, {BELOW_P}}}"), app(tags=ns("x")), "root.p.x",
        name="not qualified"),
    row(
        72,
        by(f"{{name: user, create: true, parent: {{name: tag, value: namespace, create: true, "
           f"{BELOW_P}}}}}"),
        app(tags=ns("x")),
        "root.p.x.ann",
        name="innermost below root",
    ),
    row(73, by(f"{{name: user, create: true, {BELOW_P}}}"), app(), "root.p.ann", name="mapping"),
    row(73, by("{name: user, create: true, parent: [{name: fixed, value: p}]}"), app(),
        "root.p.ann", name="list"),
    row(74, by("{name: fixed, value: a, filter: {type: deny, users: [ann, eve]}}", FIXED_B), app(),
        "root.b", name="denied"),
    row(74, by("{name: fixed, value: a, filter: {type: deny, users: [bob, eve]}}", FIXED_B), app(),
        "root.a", name="not denied"),
    row(74, by("{name: fixed, value: a, filter: {users: [ann, eve]}}", FIXED_B), app(), "root.a",
        name="allowed"),
    row(74, by("{name: fixed, value: a, filter: {users: [bob, eve]}}", FIXED_B), app(), "root.b",
        name="not allowed"),
    row(75, by("{name: fixed, value: a, filter: {groups: ['dev*']}}", FIXED_B),
        app(groups=("sarah", "dev_app")), "root.a", name="some group"),
    row(75, by("{name: fixed, value: a, filter: {groups: ['dev*']}}", FIXED_B),
        app(groups=("sarah", "test")), "root.b", name="no group"),
    row(76, SAMPLE_1, app(user="john", tags=ns("testing")), "root.namespaces.testing",
        name="john"),
    row(76, SAMPLE_1, app(user="sarah", groups=("sarah", "dev_app"), tags=ns("newapp")),
        "root.newapp.sarah", name="sarah"),
    row(76, SAMPLE_1, app(user="bob", tags=ns("testapp")), "root.default", name="bob"),
    row(77, SAMPLE_2, app(user="john"), "root.production", name="john"),
    row(77, SAMPLE_2, app(user="jane"), "root.users.jane", name="jane"),
    row(79, by("{name: provided}", FIXED_B), app("root.c"), "root.b", name=""),
    row(80, by("{name: provided}", FIXED_B), app("root.p"), "root.b", name="provided"),
    row(80, by(f"{NAMESPACE}, create: true}}", FIXED_B), app(tags=ns("p")), "root.b", name="tag"),
    row(39, OPEN, app("root.a"), "root.a", name="access to root"),
    row(39, GUARDED, app("root.mine"), "root.mine", name="access to the queue"),
    row(40, GUARDED, app("root.run.below"), "root.run.below", name="an administrator"),
]  # fmt: skip
REFUSED = [
    row(39, GUARDED, app("root.closed"), NO_MATCH, name="no access"),
    row(39, GUARDED, app("root.mine", "bob"), NO_MATCH, name="somebody else"),
    row(40, GUARDED, app("root.run.below", "bob"), NO_MATCH, name="no administrator"),
    row(60, by("{name: provided}"), app("root.c"), f"failed to place application app: {NO_MATCH}",
        name=""),
    row(62, OPEN, app(), NO_MATCH, name="no rules and no queue"),
    row(77, SAMPLE_2.replace(", submitacl: '*'}", "}"), app(user="jane"), NO_MATCH,
        name="jane without the open parent"),
    row(79, by("{name: user}"), app(), NO_MATCH, name=""),
    row(81, by(f"{{name: user, create: true, parent: {{name: tag, value: namespace, create: true, "
               f"{BELOW_P}}}}}", queues=OPEN), app(tags=ns("root.a.x")), "parent is already a leaf",
        name=""),
    row(82, by("{name: provided, create: true}", FIXED_B), app(LONG),
        f"invalid queue name, {LETTERS} allowed, found '{'x' * 64}…'", name="a long name"),
    row(82, by("{name: provided, create: true}", FIXED_B), app("root.a b.c"),
        f"invalid queue name, {LETTERS} allowed, found 'a b' in 'root.a b.c'", name="a blank"),
    row(85, OPEN, app("root.a", ""), "empty user cannot resolve", name="nobody"),
    row(85, OPEN, app("root.a", "a b"), "it contains invalid characters, found 'a b'",
        name="an illegal user"),
]  # fmt: skip
WRONG = [
    row(68, by("{name: fixed, value: root.a, parent: {name: user}}"),
        "cannot have a fixed queue rule with qualified queue getName and a parent rule", name=""),
    row(69, by("{name: fixed, create: true}"), "a fixed queue rule must have a queue name set",
        name="fixed"),
    row(69, by("{name: tag}"), "a tag queue rule must have a tag name set", name="tag"),
    row(78, by("{name: nonsense}"), "unknown rule name specified nonsense", name=""),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "new", "queue"), PLACED)
async def test_an_application_is_placed(
    rm: ServedRm, settings: str, new: si.AddApplicationRequest, queue: str
) -> None:
    """It is accepted, and REST shows it in the queue where it belongs."""
    await rm.register(partition(settings))
    assert await rm.submit(new) == {}
    assert (await rm.app("app"))["queueName"] == queue


@pytest.mark.parametrize(("settings", "new", "reason"), REFUSED)
async def test_an_application_is_refused(
    rm: ServedRm, settings: str, new: si.AddApplicationRequest, reason: str
) -> None:
    """It is rejected with its reason, and no queue is left behind."""
    await rm.register(partition(settings))
    before = await rm.get("queues")
    assert reason in (await rm.submit(new))["app"]
    assert (await rm.app("app"))["applicationState"] == "Rejected"
    assert await rm.get("queues") == before


@pytest.mark.parametrize(("settings", "reason"), WRONG)
async def test_rules_that_cannot_work_are_refused(rm: ServedRm, settings: str, reason: str) -> None:
    """The registration fails with what is wrong."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rm.register(partition(settings))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason in (caught.value.details() or "")
