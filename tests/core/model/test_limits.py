"""Limits of users and groups: their choice, and the effect of a reload (spec § 10)."""

import pytest

from licorne_core.messages.commands import NewApplication
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload, remove_apps
from support.core.driver import Driver, keys, placed
from support.core.reports import applications_in
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
SUE_1 = "{users: [sue], maxresources: {vcore: 1m}}"
SUE_3 = "{users: [sue], maxresources: {vcore: 3m}}"
ALL_2 = "{users: ['*'], maxresources: {vcore: 2m}}"
ALL_5 = "{users: ['*'], maxresources: {vcore: 5m}}"


def leaf(*limits: str, name: str = "a", root: str = "") -> str:
    """A configuration of one leaf with these limits, and with the limits `root` at root."""
    rest = f"limits: [{root}]" if root else ""
    return config(f"[{{name: {name}, limits: [{', '.join(limits)}]}}]", rest=rest)


def groups(*names: str, cores: int = 9) -> str:
    """Limits for each of these groups, in this order."""
    return ", ".join(f"{{groups: [{n!r}], maxresources: {{vcore: {cores}m}}}}" for n in names)


def town(text: str, *new: NewApplication) -> Driver:
    """A core with more room than the limits allow, and these applications."""
    driver = Driver()
    driver.do(register(text), nodes(node("n1", vcore=1000, gpu=1000)), apps(*new))
    return driver


def want(driver: Driver, app_id: str, count: int = 9) -> None:
    """Submit this number of asks of one thousandth of a core."""
    driver.do(asks(*(ask(app_id, f"{app_id}{i}", vcore=1) for i in range(count))))


def usage_names(driver: Driver, kind: str) -> list[str]:
    """The users or groups with usage or a limit, in order."""
    return list(filter(None, driver.views.usage_names_in_order(DEFAULT, kind)))


def has(driver: Driver, *app_ids: str) -> int:
    """The total usage of cores by these applications, in thousandths."""
    reports = [report for report in applications_in(driver.views, DEFAULT) if report.app_id in app_ids]
    return sum(report.allocated.get("vcore", 0) for report in reports)


def group(driver: Driver, app_id: str) -> str:
    """The group in which the usage of an application of `sue` counts."""
    return last(driver.views.usage(DEFAULT, "user", "sue")).groups[app_id]  # type: ignore[index]


@pytest.mark.row(156, 157)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (leaf(groups("ops", "dev")), "ops"),
        (leaf(groups("dev", "ops")), "dev"),
        (leaf(groups("qa"), root=groups("dev", "ops")), "dev"),
        (leaf(groups("ops"), root=groups("dev", "ops")), "ops"),
        (leaf(groups("qa", "*"), root=groups("dev")), "*"),
        (leaf(groups("qa"), root=groups("qa")), ""),
        (config("[{name: a}]"), ""),
    ],
    ids=["first", "other order", "further up", "leaf first", "wildcard", "none of hers", "none"],
)
def test_an_application_counts_for_one_group(text: str, found: str) -> None:
    """From the leaf up, the user's first group with a limit counts; without one, the `*` of the queue."""
    driver = town(text, app("job", "root.a", user="sue", groups=["dev", "ops"]))
    assert group(driver, "job") == found


@pytest.mark.row(156)
@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (leaf(groups("ops")), leaf(groups("dev", "ops")), "ops"),
        (leaf(groups("ops")), leaf(groups("dev"), root=groups("ops")), "ops"),
        (leaf(groups("qa", "*")), leaf(groups("dev", "*")), "*"),
        (leaf(groups("ops")), leaf(groups("dev")), "dev"),
        (leaf(groups("qa", "*")), leaf(groups("dev")), "dev"),
        (leaf(groups("ops")), leaf(groups("qa", "*")), "*"),
        (leaf(groups("ops")), leaf(groups("qa")), ""),
        (leaf(groups("qa")), leaf(groups("dev")), "dev"),
    ],
    ids=[
        "another before it",
        "limited further up",
        "a named one beside the wildcard",
        "another instead",
        "a named one instead of the wildcard",
        "the wildcard instead",
        "none instead",
        "one for the first time",
    ],
)
def test_an_application_keeps_its_group_while_it_is_limited(before: str, after: str, found: str) -> None:
    """A reload keeps the group of an application if a queue above it still limits that group."""
    driver = town(before, app("job", "root.a", user="sue", groups=["dev", "ops"]))
    want(driver, "job", 1)
    driver.do(reload(after))
    assert group(driver, "job") == found
    driver.do(reload(after.replace("9m", "8m")), reload(after))
    assert group(driver, "job") == found


@pytest.mark.row(156)
def test_usage_moves_to_the_new_group_of_an_application() -> None:
    """When one of two applications changes its group, its usage counts in the new group at root."""
    both = "[{name: a, limits: [%s]}, {name: b, limits: [%s]}]"
    driver = town(
        config(both % (groups("ops"), groups("ops"))),
        app("job", "root.a", user="sue", groups=["dev", "ops"]),
        app("bob", "root.b", user="bob", groups=["ops"]),
    )
    want(driver, "job", 2)
    want(driver, "bob", 3)
    driver.do(reload(config(both % (groups("dev"), groups("ops")))))
    used = {
        name: last(driver.views.usage(DEFAULT, "group", name)).queues.allocated for name in ("dev", "ops")
    }
    assert used == {"dev": {"vcore": 2}, "ops": {"vcore": 3}}


@pytest.mark.row(156)
def test_usage_counts_for_the_kept_group_after_a_reload() -> None:
    """After a reload the usage of an application still counts in its group, and limits other members."""
    text = leaf(groups("ops", cores=2))
    driver = town(text, app("job", "root.a", user="sue", groups=["dev", "ops"]))
    want(driver, "job", 1)
    driver.do(reload(leaf(groups("dev"), root=groups("ops", cores=2))))
    driver.do(apps(app("bob", "root.a", user="bob", groups=["ops"])))
    want(driver, "bob")
    assert (has(driver, "job"), has(driver, "bob")) == (1, 1)


@pytest.mark.row(156, 158)
def test_the_tightest_limit_applies() -> None:
    """Of the limits of user and group, in leaf and root, the one with the least room applies."""
    both = f"{SUE_3}, {groups('dev', cores=2)}"
    driver = town(leaf(SUE_1, root=both), app("job", "root.a", user="sue", groups=["dev"]))
    want(driver, "job")
    assert has(driver, "job") == 1
    driver.do(reload(leaf(root=both)))
    assert has(driver, "job") == 2
    driver.do(reload(leaf(root=SUE_3)))
    assert has(driver, "job") == 3


@pytest.mark.row(155)
def test_each_user_of_a_limit_is_limited_separately() -> None:
    """Each user of one limit may use the whole amount, regardless of the other users."""
    limit = "{users: [sue, bob], maxresources: {vcore: 2m}}"
    driver = town(leaf(limit), *(app(user, "root.a", user=user) for user in ("sue", "bob", "eve")))
    for user in ("sue", "bob", "eve"):
        want(driver, user, 4)
    assert [has(driver, user) for user in ("sue", "bob", "eve")] == [2, 2, 4]


def test_replayed_allocations_count_and_are_never_refused() -> None:
    """Replayed allocations are accepted above a limit, but new asks of the user are not placed."""
    driver = town(leaf(SUE_3), app("s", "root.a", user="sue"))
    effects = driver.do(asks(ask("s", "old", vcore=5, on_node="n1"), ask("s", "new", vcore=1)))
    assert placed(effects) == [("s", "old", "n1")]


@pytest.mark.row(155)
def test_a_zero_in_a_limit_forbids_the_type() -> None:
    """A limit of zero for a type blocks every ask for that type, and no other ask."""
    limit = "{users: [sue], maxresources: {vcore: 9m, gpu: 0}}"
    driver = town(leaf(limit), app("job", "root.a", user="sue"))
    wanted = [ask("job", "card", vcore=1, gpu=1), ask("job", "none", vcore=1)]
    assert keys(driver.do(asks(*wanted))) == ["none"]


@pytest.mark.row(155)
def test_a_limit_applies_in_a_queue_whose_name_has_capitals() -> None:
    """The limits of a queue apply, whatever the case of its configured name."""
    driver = town(leaf(SUE_1, name="Sales"), app("job", "root.SALES", user="sue"))
    want(driver, "job")
    assert has(driver, "job") == 1


@pytest.mark.row(6, 10)
def test_usage_is_counted_by_partition() -> None:
    """The usage of a user in one partition does not count in another one of the same RM."""
    second = config(f"[{{name: a, limits: [{SUE_1}]}}]", name="second")
    driver = town(leaf(SUE_1) + second.removeprefix("partitions:\n"))
    driver.do(nodes(node("n2", partition="second", vcore=9)))
    for partition in ("default", "second"):
        driver.do(apps(app("job", "root.a", user="sue", partition=partition)))
        wanted = [ask("job", f"k{i}", partition=partition, vcore=1) for i in range(3)]
        assert len(placed(driver.do(asks(*wanted)))) == 1


@pytest.mark.row(160)
@pytest.mark.parametrize(
    ("before", "after", "had", "may_have"),
    [
        ([SUE_1], [SUE_3], 1, 3),
        ([SUE_3], [SUE_1], 3, 3),
        ([SUE_1, ALL_5], [ALL_5], 1, 5),
        ([SUE_1], [], 1, 9),
        ([ALL_2], [ALL_5], 2, 5),
        ([SUE_1, ALL_2], [SUE_1, ALL_5], 1, 1),
        ([ALL_2], [ALL_5, groups("dev", cores=4)], 2, 4),
        ([groups("dev", cores=2)], [groups("ops", cores=3)], 2, 3),
        ([groups("dev", cores=2)], [], 2, 9),
    ],
    ids=[
        "raised",
        "lowered",
        "named to wildcard",
        "removed",
        "wildcard raised",
        "wildcard raised beside a name",
        "a group's besides",
        "another group's",
        "a group's removed",
    ],
)
def test_limits_of_reloads_apply_at_once(
    before: list[str], after: list[str], had: int, may_have: int
) -> None:
    """Existing usage counts by the new limits, and no allocation is stopped."""
    driver = town(leaf(*before), app("job", "root.a", user="sue", groups=["dev", "ops"]))
    want(driver, "job")
    assert has(driver, "job") == had
    driver.do(reload(leaf(*after)))
    assert has(driver, "job") == may_have


@pytest.mark.row(157, 160)
def test_a_new_wildcard_limits_each_user_separately() -> None:
    """A new wildcard limits each user without an entry separately; users with an entry keep theirs."""
    new = [app(user, "root.a", user=user) for user in ("sue", "bob", "eve")]
    driver = town(leaf(), *new)
    driver.do(reload(leaf(SUE_1, ALL_2)))
    for user in ("sue", "bob", "eve"):
        want(driver, user)
    assert [has(driver, user) for user in ("sue", "bob", "eve")] == [1, 2, 2]


@pytest.mark.row(159, 160)
def test_a_raised_number_of_applications_starts_the_next_one() -> None:
    """If the number is raised, the user's next application starts; if it is lowered, none is stopped."""
    limit = "{users: [sue], maxapplications: %s}"
    driver = town(leaf(limit % 1), *(app(f"s{n}", "root.a", user="sue") for n in range(3)))
    for number in range(3):
        want(driver, f"s{number}", 1)
    assert has(driver, "s0", "s1", "s2") == 1
    driver.do(reload(leaf(limit % 2)))
    assert has(driver, "s0", "s1", "s2") == 2
    driver.do(reload(leaf(limit % 1)))
    assert has(driver, "s0", "s1", "s2") == 2
    driver.do(remove_apps("s0"))
    assert has(driver, "s2") == 0
    driver.do(remove_apps("s1"))
    assert has(driver, "s2") == 1


@pytest.mark.row(156)
def test_users_without_usage_are_dropped() -> None:
    """After its last application a user is only reported if it has a limit (§ 10.8)."""
    driver = town(leaf(groups("dev")), app("job", "root.a", user="sue", groups=["dev"]))
    want(driver, "job")
    driver.do(remove_apps("job"))
    with pytest.raises(NotFound):
        last(driver.views.usage(DEFAULT, "user", "sue"))
    assert usage_names(driver, "user") == []
    left = last(driver.views.usage(DEFAULT, "group", "dev")).queues
    assert (left.allocated, left.applications) == ({}, ())
    assert usage_names(driver, "group") == ["dev"]
    assert driver.partition.limits.groups == {}


@pytest.mark.row(156)
def test_a_wildcard_limit_lists_no_user() -> None:
    """The wildcard is not listed as a user; a user named by a limit is listed, with the limit's queue."""
    driver = town(leaf("{users: [sue], maxresources: {vcore: 5m}}", ALL_5))
    assert usage_names(driver, "user") == ["sue"]
    (below,) = last(driver.views.usage(DEFAULT, "user", "sue")).queues.children
    assert (below.path, below.max) == ("root.a", {"vcore": 5})
    with pytest.raises(NotFound):
        last(driver.views.usage(DEFAULT, "user", "*"))


def test_usage_is_counted_without_a_limit() -> None:
    """The usage of a user is reported even without a limit, and counts under a limit that is added later."""
    driver = town(leaf(), app("s0", "root.a", user="sue"), app("s1", "root.a", user="sue"))
    want(driver, "s0", 1)
    want(driver, "s1", 1)
    usage = last(driver.views.usage(DEFAULT, "user", "sue")).queues
    assert usage.allocated == usage.children[0].allocated == {"vcore": 2}
    driver.do(reload(leaf(SUE_3)))
    want(driver, "s0", 5)
    assert has(driver, "s0", "s1") == 3
    driver.do(reload(leaf()))
    assert has(driver, "s0", "s1") == 6
    usage = last(driver.views.usage(DEFAULT, "user", "sue")).queues
    assert usage.allocated == usage.children[0].allocated == {"vcore": 6}
