"""Records of removed RMs and partitions, and the bound on their number."""

import pytest

from licorne_core.handlers import configuration
from licorne_core.messages.commands import RemoveRm
from licorne_core.messages.effects import Registered
from licorne_core.partitions import registry
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import RmId
from support.core.builders import RM, app, apps, config, register, reload
from support.core.contents import digest_of
from support.core.driver import Driver, refused_apps

ONE_LEAF = config("[{name: a}]")


def with_second(name: str) -> str:
    """A configuration with the partition `default` and a partition of this name."""
    return ONE_LEAF + config("[{name: a}]", name=name).removeprefix("partitions:\n")


def session(driver: Driver, rm: str) -> int:
    """Register an RM; return the number of its session."""
    (effect,) = driver.do(register(ONE_LEAF, rm=rm))
    assert isinstance(effect, Registered)
    return effect.session


def leave(driver: Driver, *rms: str) -> None:
    """Let these RMs leave."""
    driver.do(*(RemoveRm(rm_id=RmId(rm)) for rm in rms))


def test_session_numbers_rise_with_every_registration() -> None:
    """Each RM has sessions numbered from 1, and the numbers continue after its removal."""
    driver = Driver()
    assert [session(driver, "one"), session(driver, "one"), session(driver, "two")] == [1, 2, 1]
    leave(driver, "one")
    assert [session(driver, "one"), session(driver, "two")] == [3, 2]


def test_a_refused_registration_has_no_session_number() -> None:
    """A refused registration uses no session number."""
    driver = Driver()
    driver.do(register("nonsense", rm="one"))
    assert session(driver, "one") == 1
    driver.do(register("nonsense", rm="one"))
    assert session(driver, "one") == 2


def test_a_removed_rm_has_no_lower_session_number_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session number of an RM is above its previous one, however many RMs were removed since."""
    monkeypatch.setattr(registry, "MAX_DEPARTED", 2)
    driver = Driver()
    for rm in ("old", "old", "old", "old", "a", "b", "c"):
        session(driver, rm)
    leave(driver, "old", "a", "b")
    assert session(driver, "old") == 5
    assert session(driver, "never seen") == 5
    assert session(driver, "b") == 2, "one that is still known goes on where it was"
    leave(driver, "b", "c", "never seen", "old")
    assert session(driver, "a") == 5, "a was here in session 1, and is forgotten"


def test_records_of_removed_rms_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a core does not grow with the number of removed RMs."""
    monkeypatch.setattr(registry, "MAX_DEPARTED", 3)
    driver = Driver()
    sizes = []
    for number in range(9):
        session(driver, f"rm{number}")
        leave(driver, f"rm{number}")
        sizes.append(len(digest_of(driver.scheduler)))
    assert sizes[3:] == [sizes[3]] * 6


def test_records_of_removed_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the partitions removed by reloads only the latest are recorded."""
    monkeypatch.setattr(registry, "MAX_REMOVED", 2)
    driver = Driver()
    driver.do(register(with_second("p0")))
    for number in range(1, 5):
        driver.do(reload(with_second(f"p{number}")))
    reasons = [
        refused_apps(driver.do(apps(app(f"app-{name}", "root.a", partition=name))))[f"app-{name}"]
        for name in ("p0", "p1", "p2", "p3")
    ]
    assert reasons[0] == reasons[1].replace("p1", "p0")
    assert reasons[2] == reasons[3].replace("p3", "p2")
    assert reasons[1] != reasons[2].replace("p2", "p1")


def test_names_on_the_wire_are_not_stored() -> None:
    """Requests with names of unknown partitions leave no state."""
    driver = Driver()
    driver.do(register(ONE_LEAF))

    def size_after(*names: str) -> int:
        for name in names:
            driver.do(apps(app("app", "root.a", partition=name)))
        return len(digest_of(driver.scheduler))

    first = size_after("unknown", "[rm1]unknown", "[rm2]default")
    assert size_after(*(f"unknown{number}" for number in range(20))) == first


@pytest.mark.pure
def test_an_rm_registers_again_after_a_failed_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a defect in the middle of a reload the RM can register again."""

    def fragile(partition: Partition, *_: object) -> None:
        if partition.name == "[rm1]gpu":
            raise RuntimeError("planted")

    driver = Driver()
    driver.do(register(ONE_LEAF))
    with monkeypatch.context() as faulty:
        faulty.setattr(configuration, "follow", fragile)
        with pytest.raises(RuntimeError, match="planted"):
            driver.do(reload(with_second("gpu")))
    assert session(driver, "rm1") == 2
    assert refused_apps(driver.do(apps(app("app", "root.a")))) == {}


def test_extra_configuration_is_sorted() -> None:
    """The extra configuration is sorted once, on arrival, so that readers need not sort it."""
    driver = Driver()
    driver.do(register(ONE_LEAF, extra={"b": "1", "c": "2", "a": "3"}))
    assert list(driver.views.rm(RM).extra_config) == ["a", "b", "c"]
    driver.do(reload(ONE_LEAF, extra={"z": "1", "y": "2"}))
    assert list(driver.views.rm(RM).extra_config) == ["y", "z"]
    assert driver.views.rm(RM).extra_config is driver.views.rm(RM).extra_config, "nobody copies it"
