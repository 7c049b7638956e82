"""Names of partitions: displayed as configured, and found in any case (spec §§ 1.6.5, 2.5)."""

import pytest

from licorne_core.messages.effects import (
    ApplicationsAnswered,
    ConfigurationUpdated,
    Effect,
    NodesAnswered,
    Registered,
)
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, keys

GPU = PartitionName("[rm1]Gpu")
SPELLINGS = ["Gpu", "gpu", "GPU", "[rm1]Gpu", "[rm1]gpu"]


def of_name(*names: str) -> str:
    """A configuration with a partition of one leaf for each name."""
    parts = [config("[{name: a}]", name=name).removeprefix("partitions:\n") for name in names]
    return "partitions:\n" + "".join(parts)


def started(*names: str) -> Driver:
    """A core with these partitions."""
    driver = Driver()
    assert isinstance(driver.do(register(of_name(*names)))[0], Registered)
    return driver


def refusals(effects: list[Effect]) -> list[str]:
    """The reasons for which applications and nodes were refused."""
    answers = [e for e in effects if isinstance(e, ApplicationsAnswered | NodesAnswered)]
    return [refused.reason for answer in answers for refused in answer.rejected]


@pytest.mark.row(22)
@pytest.mark.parametrize("spelt", SPELLINGS)
def test_requests_find_a_partition_in_any_case(spelt: str) -> None:
    """Nodes, applications and asks are accepted under the partition's name in any case."""
    driver = started("default", "Gpu")
    for number in range(2):
        name = f"{spelt}{number}"
        driver.do(nodes(node(f"n-{name}", partition=spelt, vcore=9)))
        assert refusals(driver.do(apps(app(name, "root.a", partition=spelt)))) == []
        assert keys(driver.do(asks(ask(name, "k", partition=spelt, vcore=1)))) == ["k"]
    assert driver.views.partition(GPU).nodes == 2


@pytest.mark.row(22)
@pytest.mark.parametrize("spelt", SPELLINGS)
def test_readers_find_a_partition_in_any_case(spelt: str) -> None:
    """A partition is found under its name in any case, and reports show the configured name."""
    driver = started("Gpu")
    assert driver.views.resolve(spelt) == GPU
    assert [report.bare_name for report in driver.views.partitions()] == ["Gpu"]


def test_a_reload_may_change_the_case_of_a_name() -> None:
    """A partition whose name differs only in case after a reload continues, and keeps its name."""
    driver = started("Gpu")
    driver.do(apps(app("job", "root.a", partition="Gpu")))
    changed, *others = driver.do(reload(of_name("gpu", "more")))
    assert isinstance(changed, ConfigurationUpdated)
    assert not others
    assert [report.name for report in driver.views.partitions()] == ["[rm1]Gpu", "[rm1]more"]
    assert driver.views.application(GPU, "job").state == "New"


def test_a_removed_partition_is_recognized_in_any_case() -> None:
    """Requests to a removed partition are refused in any case of its name, until it is added again."""
    driver = started("default", "Gpu")
    driver.do(apps(app("before", "root.a", partition="gpu")))
    driver.do(reload(of_name("default")))
    (refusal,) = refusals(driver.do(apps(app("job", "root.a", partition="GPU"))))
    assert refusal == "partition [rm1]GPU is stopped cannot add a new application job"
    driver.do(reload(of_name("default", "gpu")))
    assert refusals(driver.do(apps(app("job", "root.a", partition="GPU")))) == []
    assert driver.views.application(PartitionName("[rm1]gpu"), "job").state == "New"


def test_a_bracketed_name_is_searched_only_at_its_rm() -> None:
    """A name with an RM in brackets is found only among the partitions of that RM."""
    driver = started("Gpu")
    driver.do(register(of_name("other"), rm="rm2"))
    (refusal,) = refusals(driver.do(apps(app("job", "root.a", partition="[rm1]gpu"), rm="rm2")))
    assert "partition doesn't exist" in refusal
