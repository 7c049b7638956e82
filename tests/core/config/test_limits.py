"""Limits for users and groups (spec §§ 2.5 #18, 2.6, 14)."""

import pytest

from support.core.configurations import complaint, loaded, messages, partition_text, root

LIMITS_DIFFER = "partition limits and root queue limits are not equivalent"


def limit(entry: str) -> str:
    """A partition with one limit in queue q, which has maxima of 10 applications and 10 vcore."""
    queue = "name: q, maxapplications: 10, resources: {max: {vcore: 10}}"
    return f"queues: [{{{queue}, limits: [{{limit: d, {entry}}}]}}]"


@pytest.mark.row(35)
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("maxapplications: 1", "empty user and group lists defined in limit 'd'"),
        ("users: [a]", "invalid resource combination for limit d all resource limits are null"),
        (
            "users: [a], maxapplications: 0",
            "invalid resource combination for limit d all resource limits are null",
        ),
        (
            "users: [a], maxresources: {vcore: 0, memory: 0}",
            "MaxResources should be greater than zero in 'd' limit",
        ),
        (
            "users: [a], maxapplications: 1, maxresources: {vcore: 0}",
            "MaxResources should be greater than zero in 'd' limit",
        ),
        ("users: [1up], maxapplications: 1", "invalid limit user name '1up' in limit definition"),
        ("groups: ['a@b'], maxapplications: 1", "invalid limit group name 'a@b' in limit definition"),
        (
            "groups: ['*'], maxapplications: 1",
            (
                "should not specify only one group limit that is using the wildcard. "
                "There must be at least one limit with a group name defined"
            ),
        ),
        (
            "users: ['*', a], maxapplications: 1",
            "should not set no wildcard user a after wildcard user limit",
        ),
        (
            "groups: ['*', a], maxapplications: 1",
            "should not set no wildcard group a after wildcard group limit",
        ),
        ("users: [a, '*'], maxapplications: 1", "the wildcard cannot stand beside user names in one limit"),
        ("groups: [a, '*'], maxapplications: 1", "the wildcard cannot stand beside group names in one limit"),
        (
            "users: [a], maxapplications: 11",
            "invalid MaxApplications settings for limit d exceed current the queue MaxApplications",
        ),
        (
            "users: [a], maxresources: {vcore: 11}",
            "invalid MaxResources settings for limit d exeecd current the queue MaxResources",
        ),
        ("users: a, maxapplications: 1", "expected a list, found 'a'"),
        (
            "users: [a], maxresources: {vcore: x}",
            (
                "invalid quantity 'x' for vcore, expected a whole number, alone or with m, k, M, G, T, P, E, "
                "Ki, Mi, Gi, Ti, Pi, Ei"
            ),
        ),
        (
            "users: [a], maxapplications: x",
            "expected a whole number from 0 to 18446744073709551615, found 'x'",
        ),
    ],
)
def test_an_invalid_limit_has_one_problem(entry: str, message: str) -> None:
    """Each invalid limit is refused with exactly one message, which describes the mistake."""
    assert complaint(limit(entry)) == message


@pytest.mark.row(35)
def test_valid_limits_are_accepted() -> None:
    """Named users and groups may precede the wildcard; a zero besides other amounts forbids its type."""
    (queue,) = root("""
        queues:
          - name: q
            limits:
              - {limit: one, users: [sue, "a:b#c/d.e@f-g$"], maxapplications: 3}
              - {groups: [dev.ops], maxresources: {vcore: 1, gpu: 0}}
              - {users: ["*"], groups: ["*"], maxresources: {memory: 1Gi}, maxapplications: 1}
        """).queues
    one, two, three = queue.limits
    assert (one.limit, one.users, one.max_applications) == ("one", ("sue", "a:b#c/d.e@f-g$"), 3)
    assert (two.groups, two.max_resources) == (("dev.ops",), {"vcore": 1000, "gpu": 0})
    assert (three.users, three.groups, three.max_applications) == (("*",), ("*",), 1)


@pytest.mark.row(35)
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("users: [a]", "users: [a]", "duplicated user name 'a', already exists"),
        ("groups: [a]", "groups: [a]", "duplicated group name 'a', already exists"),
        ("users: ['*']", "users: ['*']", "duplicated user name '*', already exists"),
        ("users: ['*']", "users: [a]", "should not set no wildcard user a after wildcard user limit"),
        ("groups: ['*']", "groups: [a]", "should not set no wildcard group a after wildcard group limit"),
    ],
)
def test_a_name_has_one_limit_in_a_queue(first: str, second: str, message: str) -> None:
    """In one queue a second limit for the same name is refused, and so is a limit after the wildcard."""
    entries = ", ".join(f"{{{names}, maxapplications: 1}}" for names in (first, second))
    assert complaint(f"queues: [{{name: q, limits: [{entries}]}}]") == message


def test_a_name_twice_in_one_list_counts_once() -> None:
    """A repeated name in one list is dropped with a warning."""
    body = "queues: [{name: q, limits: [{users: [a, b, a], maxapplications: 1}]}]"
    config = loaded(partition_text(body))
    assert config.partitions[0].root.queues[0].limits[0].users == ("a", "b")
    assert config.warnings == ("3:48: partitions[0].queues[0].limits[0].users[2]: user 'a' is listed twice",)


@pytest.mark.row(36)
def test_limits_of_a_partition_are_limits_of_root() -> None:
    """Limits of a partition become limits of root, whether root is configured or implicit."""
    limits = "limits: [{users: [sue], maxapplications: 3}]\n"
    for queues in ("queues: [{name: root}]", "queues: [{name: a}, {name: b}]"):
        (entry,) = root(limits + queues).limits
        assert (entry.users, entry.max_applications) == (("sue",), 3)


@pytest.mark.row(36)
def test_limits_of_partition_and_root_must_be_equal() -> None:
    """Limits of both the partition and root are accepted if they are equal, and refused otherwise."""
    entry = "[{users: [sue], maxapplications: %s}]"
    body = "limits: %s\nqueues: [{name: root, limits: %s}]"
    assert len(root(body % (entry % 3, entry % 3)).limits) == 1
    assert complaint(body % (entry % 3, entry % 4)) == LIMITS_DIFFER


@pytest.mark.row(35, 36)
def test_partition_limits_are_checked() -> None:
    """Limits of the partition are checked like limits of a queue."""
    assert complaint("limits: [{users: [a]}]\nqueues: [{name: a}]") == (
        "invalid resource combination for limit  all resource limits are null"
    )


def nested(above: str, below: str) -> str:
    """Queue p with one limit, q below it without a limit, and r below q with another limit."""
    inner = f"{{name: q, queues: [{{name: r, limits: [{{{below}}}]}}]}}"
    return f"queues: [{{name: p, limits: [{above}], queues: [{inner}]}}]"


@pytest.mark.row(35)
@pytest.mark.parametrize(
    ("above", "below", "message"),
    [
        (
            "{users: [sue], maxresources: {vcore: 2}}",
            "users: [sue], maxresources: {vcore: 3}",
            (
                "user sue max resource map[vcore:3000] of queue r is greater than "
                "immediate or ancestor parent maximum resource map[vcore:2000]"
            ),
        ),
        (
            "{users: ['*'], maxresources: {vcore: 2}}",
            "users: [sue], maxresources: {vcore: 3}",
            (
                "user sue max resource map[vcore:3000] of queue r is greater than "
                "wildcard maximum resource map[vcore:2000] of immediate or ancestor parent queue"
            ),
        ),
        (
            "{groups: [dev], maxapplications: 2}",
            "groups: [dev], maxapplications: 3",
            (
                "group dev max applications 3 of queue r is greater than "
                "immediate or ancestor parent max applications 2"
            ),
        ),
        (
            "{users: ['*'], maxapplications: 2}",
            "users: [sue], maxapplications: 3",
            (
                "user sue max applications 3 of queue r is greater than "
                "wildcard maximum max applications 2 of immediate or ancestor parent queue"
            ),
        ),
        (
            "{users: [sue], maxapplications: 2}",
            "users: [sue], maxresources: {vcore: 3}",
            (
                "user sue max applications 0 of queue r is greater than "
                "immediate or ancestor parent max applications 2"
            ),
        ),
    ],
)
def test_a_limit_above_that_of_an_ancestor_is_refused(above: str, below: str, message: str) -> None:
    """A limit must not exceed the nearest limit above for the same name; without one, for the wildcard."""
    assert complaint(nested(above, below)) == message


def test_a_type_missing_in_a_limit_is_bounded_by_a_higher_limit() -> None:
    """If the nearest limit above omits a type, the next limit above it bounds the type."""
    lowest = "{name: r, limits: [{users: [sue], maxresources: {vcore: 3}}]}"
    between = f"{{name: q, limits: [{{users: [sue], maxresources: {{gpu: 1}}}}], queues: [{lowest}]}}"
    above = "{users: [sue], maxresources: {vcore: 2}}"
    assert complaint(f"queues: [{{name: p, limits: [{above}], queues: [{between}]}}]") == (
        "user sue max resource map[vcore:3000] of queue r is greater than "
        "immediate or ancestor parent maximum resource map[gpu:1 vcore:2000]"
    )


@pytest.mark.row(35)
@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("{users: [sue], maxresources: {vcore: 2}}", "users: [bob], maxresources: {vcore: 3}"),
        ("{users: [sue], maxresources: {vcore: 2}}", "groups: [sue], maxresources: {vcore: 3}"),
        ("{users: [sue], maxresources: {vcore: 2}}", "users: [sue], maxresources: {gpu: 3}"),
        (
            "{users: [sue], maxapplications: 9}, {users: ['*'], maxapplications: 1}",
            "users: [sue], maxapplications: 9",
        ),
    ],
)
def test_unrelated_limits_do_not_conflict(above: str, below: str) -> None:
    """Limits do not bound limits of other names, kinds or types; a name's limit precedes the wildcard's."""
    assert not messages(nested(above, below))


@pytest.mark.parametrize("kind", ["users", "groups"])
def test_limits_of_one_branch_do_not_bind_another(kind: str) -> None:
    """The limits of a queue and its descendants do not bound the limits of its siblings."""
    body = """
    queues:
      - name: a
        limits: [{%s: [x], maxapplications: 2}]
        queues: [{name: b, limits: [{%s: [x], maxapplications: 1}]}]
      - {name: c, limits: [{%s: [x], maxapplications: %s}]}
    limits: [{%s: [x], maxapplications: 3}]
    """
    assert messages(body % (kind, kind, kind, 3, kind)) == []
    without_root, _, _ = body.rpartition("limits:")
    assert messages(without_root % (kind, kind, kind, 4)) == []
    (message,) = messages(body % (kind, kind, kind, 4, kind))
    assert message.endswith("immediate or ancestor parent max applications 3")
