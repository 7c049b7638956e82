"""Queue properties: their inheritance and their effect (spec § 2.4)."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.extra import parse_duration
from licorne_core.config.properties import merge_properties, settings_of
from licorne_core.config.schema import AppSortPolicy, PreemptionPolicy, QueueSettings, VictimOrder
from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.extensions.backfill import Backfill
from licorne_core.extensions.hours.messages import HoursLimit
from licorne_core.extensions.state_aware import POLICY
from licorne_core.values.errors import ConfigError
from licorne_core.values.windows import Window
from support.core.configurations import find, loaded, partition_text, root


@pytest.mark.row(41)
def test_unknown_properties_are_kept() -> None:
    """Unknown properties are kept, with their values verbatim."""
    body = "queues: [{name: a, properties: {team: blue, cost.centre: 0815, since: 12:30}}]"
    assert root(body).queues[0].properties == {"team": "blue", "cost.centre": "0815", "since": "12:30"}


@pytest.mark.row(42)
def test_an_unknown_sort_policy_gives_a_warning() -> None:
    """An unknown sort policy gives a warning with its place, and the policy is fifo."""
    body = "queues: [{name: a, properties: {application.sort.policy: foo}}]"
    config = loaded(partition_text(body))
    queue = find(config.partitions[0].root, "root.a")
    assert settings_of(queue.properties).app_sort is AppSortPolicy.FIFO
    (warning,) = config.warnings
    assert warning == (
        "3:62: partitions[0].queues[0].properties.application.sort.policy: "
        "'foo' is none of fifo, fair, stateaware, strict; taken as fifo"
    )
    with pytest.raises(ConfigError, match="taken as fifo"):
        loaded(partition_text(body), strict=True)


@pytest.mark.row(48)
def test_properties_that_are_inherited() -> None:
    """A managed queue inherits its parent's properties, except priorities, weight and budgets."""
    parent = {
        "application.sort.policy": "fair",
        "priority.policy": "fence",
        "priority.offset": "7",
        "preemption.policy": "fence",
        "preemption.delay": "10s",
        "fairshare.half-life": "1h",
        "fairshare.weight": "0",
        "budget.gpu-hours": "5/day",
        "ageing": "1/1h",
        "opening.hours": "22:00-06:00",
        "team": "blue",
    }
    assert merge_properties(parent, {"team": "red", "quota.preemption.delay": "1m"}) == {
        "application.sort.policy": "fair",
        "priority.policy": "default",
        "priority.offset": "0",
        "preemption.policy": "default",
        "preemption.delay": "10s",
        "fairshare.half-life": "1h",
        "ageing": "1/1h",
        "opening.hours": "22:00-06:00",
        "quota.preemption.delay": "1m",
        "team": "red",
    }


@pytest.mark.row(48)
def test_only_disabled_preemption_is_inherited() -> None:
    """The preemption policy `disabled` is inherited unless the queue has its own; other policies are not."""
    assert merge_properties({"preemption.policy": "Disabled"}, {}) == {"preemption.policy": "Disabled"}
    own = {"preemption.policy": "fence", "priority.offset": "3"}
    assert merge_properties({"preemption.policy": "disabled", "priority.offset": "9"}, own) == own
    assert merge_properties({}, {}) == {}


def test_every_property_sets_its_setting() -> None:
    """Every property of a queue sets its setting."""
    assert settings_of({}) == QueueSettings()
    warnings: list[tuple[str, str]] = []
    settings = settings_of(
        {
            "application.sort.policy": "fair",
            "application.sort.priority": "Disabled",
            "application.unschedasks.backoff": "2",
            "application.unschedasks.backoff.delay": "5s",
            "priority.policy": "fence",
            "priority.offset": "-5",
            "preemption.policy": "disabled",
            "preemption.delay": "1h5m",
            "preemption.minimum.runtime": "10m",
            "preemption.loss.limit": "vcore=2, memory=1Gi",
            "preemption.victim.order": "cost",
            "preemption.reclaim": "Fair-Share",
            "quota.preemption.delay": "1.5h",
            "reservation.max.nodes": "0",
            "application.reservation.max.nodes": "3",
            "reservation.exclusive": "True",
            "reservation.idle.timeout": "500ms",
            "backfill": "conservative",
            "reserve.after": "10m",
            "preemption.notice": "1m",
            "fairshare.half-life": "24h",
            "fairshare.weight": "0.25",
            "budget.nvidia.com/gpu-hours": "500/week",
            "budget.vcore-hours": "1500m / Month",
            "topology.levels": "zone, rack",
            "topology.swap-seconds": "0",
            "ageing": "1/1h MAX 50",
        },
        warnings,
    )
    hours = (HoursLimit("nvidia.com/gpu", 500, Window.WEEK), HoursLimit("vcore", 1500, Window.MONTH))
    assert settings == QueueSettings(
        app_sort=AppSortPolicy.FAIR,
        priority_sort=False,
        priority_fence=True,
        priority_offset=-5,
        preemption=PreemptionPolicy.DISABLED,
        preemption_delay=3900.0,
        preemption_minimum_runtime=600.0,
        preemption_loss_limit=(("memory", 1 << 30), ("vcore", 2000)),
        preemption_victim_order=VictimOrder.COST,
        reserved_nodes=0,
        app_reserved_nodes=3,
        reservation_exclusive=True,
        reservation_idle_timeout=0.5,
        extended=(
            ("reclaim", True),
            ("ageing", Ageing(1, 3600.0, 50)),
            ("backfill", Backfill.CONSERVATIVE),
            ("reserve_after", 600.0),
            ("notice", 60.0),
            ("quota_change", 5400.0),
            ("topology", ("zone", "rack")),
            ("swap_seconds", 0),
            ("fair_memory", 86_400.0),
            ("fair_memory_weight", 0.25),
            ("back_off", 2),
            ("back_off_delay", 5.0),
            ("hours", hours),
        ),
    )
    assert warnings == []
    standard = asdict(QueueSettings())
    unset = [name for name, value in asdict(settings).items() if value == standard[name]]
    assert not unset, f"no property above gives a meaning to {unset}"


def test_stateaware_is_distinguished_from_fifo() -> None:
    """The policy `stateaware` is distinguished from `fifo`."""
    policy = settings_of({"application.sort.policy": "stateaware"}).app_sort
    assert policy == POLICY


@pytest.mark.row(42)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("application.sort.policy", "random"),
        ("application.sort.priority", "true"),
        ("application.unschedasks.backoff", "-1"),
        ("application.unschedasks.backoff", "18446744073709551616"),
        ("application.unschedasks.backoff.delay", "0s"),
        ("priority.policy", "fenced"),
        ("priority.offset", "2147483648"),
        ("priority.offset", "1.5"),
        ("reservation.max.nodes", "-1"),
        ("application.reservation.max.nodes", "10%"),
        ("reservation.exclusive", "yes"),
        ("reservation.idle.timeout", "0s"),
        ("fairshare.half-life", "0s"),
        ("fairshare.half-life", "0"),
        ("fairshare.half-life", "-1h"),
        ("fairshare.weight", "-0.5"),
        ("fairshare.weight", "1.5"),
        ("fairshare.weight", "nan"),
        ("budget.gpu-hours", "500"),
        ("budget.gpu-hours", "500/year"),
        ("budget.gpu-hours", "-1/week"),
        ("budget.gpu-hours", "0.5/week"),
        ("preemption.policy", ""),
        ("preemption.delay", "-1s"),
        ("preemption.delay", "30"),
        ("preemption.minimum.runtime", "0s"),
        ("preemption.notice", "8761h"),
        ("preemption.loss.limit", "vcore"),
        ("preemption.loss.limit", "vcore=1,vcore=2"),
        ("preemption.loss.limit", "=1"),
        ("preemption.loss.limit", "vcore=-1"),
        ("preemption.victim.order", "youngest"),
        ("preemption.reclaim", "everything"),
        ("quota.preemption.delay", "soon"),
    ],
)
def test_an_invalid_property_gives_its_default(key: str, value: str) -> None:
    """Each invalid value gives the default, and one warning with key and value."""
    warnings: list[tuple[str, str]] = []
    assert settings_of({key: value}, warnings) == QueueSettings()
    (warning,) = warnings
    assert ": ".join(warning).startswith(f"{key}: '{value}' is n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1", "is no gain for each duration, such as 1/1h or 1/1h max 50"),
        ("1/soon", "is no gain for each duration, such as 1/1h or 1/1h max 50"),
        ("1/1h 50", "is no gain for each duration, such as 1/1h or 1/1h max 50"),
        ("1/1h max", "is no gain for each duration, such as 1/1h or 1/1h max 50"),
        ("1/999ms", "has a duration that is not from 1s to 8760h"),
        ("1/8761h", "has a duration that is not from 1s to 8760h"),
        ("0/1h", "has a gain that is no whole number from 1 to 2147483647"),
        ("1.5/1h", "has a gain that is no whole number from 1 to 2147483647"),
        ("2147483648/1h", "has a gain that is no whole number from 1 to 2147483647"),
        ("5/1h max 4", "has a max that is no whole number from the gain to 2147483647"),
        ("5/1h max 2147483648", "has a max that is no whole number from the gain to 2147483647"),
    ],
)
def test_an_invalid_ageing_property_disables_ageing(text: str, why: str) -> None:
    """A warning names an invalid value of the property `ageing`, and ageing is off."""
    warnings: list[tuple[str, str]] = []
    assert settings_of({"ageing": text}, warnings) == QueueSettings()
    assert warnings == [("ageing", f"'{text}' {why}; taken as off")]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("1h5m", 3900.0),
        ("1.5h", 5400.0),
        ("1m30.25s", 90.25),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("1000ns", 1e-6),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("+2s", 2.0),
        ("-2s", -2.0),
        ("2562047h", 2562047 * 3600.0),
        *((text, None) for text in ("", "30", "s", ".s", "1d", "1 s", "1s ", "--1s", "1e3s", "3000000h")),
    ],
)
def test_durations_are_parsed_as_in_go(text: str, seconds: float | None) -> None:
    """Durations are parsed as in Go."""
    assert parse_duration(text) == seconds


@given(st.text(alphabet="0123456789.hmsuµn+-", max_size=30))
def test_any_text_is_a_duration_or_not(text: str) -> None:
    """Any text gives a number of seconds within 64 bits, or None."""
    seconds = parse_duration(text)
    assert seconds is None or abs(seconds) <= 2**63 / 1e9


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_own_properties_precede_inherited_ones(parent: dict[str, str], own: dict[str, str]) -> None:
    """A merge of properties keeps every property of the queue itself."""
    merged = merge_properties(parent, own)
    assert own.items() <= merged.items()
    assert merged.keys() == parent.keys() | own.keys()
