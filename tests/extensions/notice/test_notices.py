"""Notices of preemption: deadlines, losses and checkpoints (`preemption.notice`)."""

from collections.abc import Mapping

from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from support.core.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
    remove_apps,
)
from support.core.driver import Driver, placed, released
from support.core.notices import noticed

DEFAULT = PartitionName("[rm1]default")
GUEST = AppId("guest")


def town(
    properties: str = "", tags: Mapping[str, Mapping[str, str]] | None = None, *, apart: bool = False
) -> Driver:
    """Two guests fill a node, and have a notice of a minute; the owner's queue chooses victims by cost.

    `tags` has the tags of each guest by its key. With `apart` each guest has a node.
    """
    guest = f"{{name: guest, properties: {{preemption.notice: 60s{properties}}}}}"
    owner = (
        "{name: owner, resources: {guaranteed: {memory: 2}}, "
        "properties: {preemption.delay: 5s, preemption.victim.order: cost}}"
    )
    driver = Driver()
    homes = {"old": "n2" if apart else "n1", "young": "n1"}
    size = 1 if apart else 2
    driver.do(register(config(f"[{guest}, {owner}]")))
    driver.do(nodes(*(node(name, memory=size) for name in sorted({*homes.values()}))))
    driver.do(apps(app("guest", "root.guest"), app("owner", "root.owner")))
    for key, age in (("old", 100), ("young", 50)):
        said = (tags or {}).get(key)
        begun = driver.now - age
        driver.do(asks(ask("guest", key, on_node=homes[key], memory=1, policy="s", created=begun, tags=said)))
    return driver


def wanted(driver: Driver, *keys: str) -> list[str]:
    """Submit asks of the owner, and wait for victims; return the guests under notice."""
    driver.do(asks(*(ask("owner", key, memory=1, policy="o") for key in keys)))
    return noticed(driver.wait(5))


def answered(driver: Driver, key: str, later: float) -> list[Effect]:
    """Answer a notice in place of the RM, with a request for `later` seconds; 0 means ready."""
    answer = NoticeAnswer(GUEST, AllocationKey(key), later=later)
    return driver.do(AnswerNotices(rm_id=RmId(RM), answers=[answer]))


def test_a_victim_is_stopped_at_the_deadline_at_the_latest() -> None:
    """A request of the RM for more time than remains does not move the deadline."""
    driver = town()
    assert wanted(driver, "k") == ["young"]
    answered(driver, "young", 1000.0)
    assert not released(driver.wait(59))
    assert [key for _, key, *_ in released(driver.wait(1))] == ["young"]


def test_of_equal_losses_the_victim_with_a_report_is_stopped() -> None:
    """The victim without a report, for which the median loss is assumed, is spared."""
    driver = town(tags={"old": {"licorne/lost-work": "40"}})
    assert wanted(driver, "k") == ["old"]


def test_work_under_notice_counts_as_lost() -> None:
    """The loss limit has room for one of two victims, so the second ask waits."""
    driver = town(", preemption.loss.limit: memory=150", apart=True)
    assert wanted(driver, "k1", "k2") == ["young"]
    assert not noticed(driver.wait(20))


def test_a_spared_victim_does_not_count_as_lost() -> None:
    """Once the first victim is spared, a victim for another ask may be chosen."""
    driver = town(", preemption.loss.limit: memory=100")
    assert wanted(driver, "k1", "k2") == ["young"]
    driver.do(releases(release("owner", "k1")))
    assert noticed(driver.wait(20)) == ["young"]


def test_a_placeholder_has_no_notice() -> None:
    """A placeholder, which has no work to lose, is released at once without a deadline."""
    driver = Driver()
    guest = "{name: guest, properties: {preemption.notice: 60s}}"
    owner = "{name: owner, resources: {guaranteed: {memory: 1}}, properties: {preemption.delay: 5s}}"
    driver.do(register(config(f"[{guest}, {owner}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("guest", "root.guest", gang={"memory": 1}), app("owner", "root.owner")))
    driver.do(asks(ask("guest", "p", memory=1, group="g", placeholder=True, policy="s")))
    driver.do(asks(ask("owner", "k", memory=1, policy="o")))
    effects = driver.wait(5)
    assert [key for _, key, *_ in released(effects)] == ["p"]
    assert noticed(effects) == []


def test_a_kill_does_not_wait_for_a_notice() -> None:
    """The victims of an application that an operator kills are stopped at once."""
    driver = town()
    assert wanted(driver, "k") == ["young"]
    stop = StopApplication(rm_id=RmId(RM), partition="", app_id=GUEST, reason="enough")
    assert sorted(key for _, key, *_ in released(driver.do(stop))) == ["old", "young"]


def test_the_removal_of_an_application_ends_its_notice() -> None:
    """When the RM removes the victim's application its notice ends, and the ask is placed."""
    driver = town()
    assert wanted(driver, "k") == ["young"]
    assert [key for _, key, _ in placed(driver.do(remove_apps("guest")))] == ["k"]
    assert not driver.partition.stays
    assert not released(driver.wait(60))


def test_a_raised_maximum_spares_its_victims() -> None:
    """The victim of a lowered maximum continues once the queue no longer exceeds it."""

    def text(most: int) -> str:
        properties = "{preemption.notice: 60s, quota.preemption.delay: 1s}"
        queue = f"{{name: guest, resources: {{max: {{memory: {most}}}}}, properties: {properties}}}"
        name = "  - name: default\n"
        return config(f"[{queue}]").replace(
            name, f"{name}    preemption: {{quotapreemptionenabled: true}}\n", 1
        )

    driver = Driver()
    driver.do(register(text(2)), nodes(node("n1", memory=2)), apps(app("guest", "root.guest")))
    for key in ("old", "young"):
        driver.do(asks(ask("guest", key, on_node="n1", memory=1)))
    driver.do(reload(text(1)))
    assert len(noticed(driver.wait(5))) == 1
    driver.do(reload(text(2)))
    assert not released(driver.wait(120))


def test_notices_and_their_answers_are_counted() -> None:
    """Each notice counts once, and each answer by its kind, including a missing one at the deadline."""

    def counted() -> tuple[int, int, int, int, int]:
        found = driver.views.partition(DEFAULT).extended
        given, ready, later, unanswered, withdrawn = (
            found[f"notices_{name}"] for name in ("given", "ready", "later", "unanswered", "withdrawn")
        )
        return given, ready, later, unanswered, withdrawn

    driver = town()
    wanted(driver, "k1")
    assert counted() == (1, 0, 0, 0, 0)
    answered(driver, "young", 30.0)
    answered(driver, "young", 40.0)
    driver.wait(30.0)
    driver.do(releases(release("guest", "young")))
    # One victim is stopped at the time of its answer `later`; the RM does not answer for the next one.
    assert counted() == (1, 0, 1, 0, 0)
    wanted(driver, "k2")
    driver.wait(60.0)
    driver.do(releases(release("guest", "old")))
    assert counted() == (2, 0, 1, 1, 0)
    driver = town(apart=True)
    wanted(driver, "k1", "k2")
    answered(driver, "young", 0.0)
    driver.do(*(releases(release("owner", key)) for key in ("k1", "k2")))
    assert counted() == (2, 1, 0, 0, 1)
