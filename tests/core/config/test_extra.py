"""The extra configuration of an RM (spec § 2.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.extra import ExtraConfig, read_extra

KEYS = [
    "event.trackingEnabled",
    "event.requestCapacity",
    "event.ringBufferCapacity",
    "event.maxStreams",
    "event.maxStreamsPerHost",
    "event.RESTResponseSize",
    "health.checkInterval",
    "log.level",
    "log.core.scheduler.level",
]


def test_every_key_sets_its_field() -> None:
    """Every key of the extra configuration sets its field."""
    values = ("false", "10", "20", "3", "2", "5", "1m", "WARN", "-1")
    assert read_extra(dict(zip(KEYS, values, strict=True))) == ExtraConfig(
        event_tracking=False,
        event_request_capacity=10,
        event_ring_capacity=20,
        event_max_streams=3,
        event_max_streams_per_host=2,
        event_response_size=5,
        health_interval=60.0,
        log_levels={"": "warn", "core.scheduler": "debug"},
    )


@pytest.mark.parametrize("value", ["", "maybe", "-5", "9" * 30, "1.5", "ten"])
def test_an_invalid_value_leaves_the_default(value: str) -> None:
    """A key with an invalid value counts as missing."""
    assert read_extra(dict.fromkeys(KEYS, value)) == ExtraConfig()


@pytest.mark.parametrize("interval", ["0", "0s", "-1s"])
def test_an_interval_of_zero_disables_health_checks(interval: str) -> None:
    """A check interval of zero or less disables health checks."""
    assert read_extra({"health.checkInterval": interval}).health_interval == 0.0


def test_log_levels_have_names_or_numbers() -> None:
    """Log levels are names or numbers; keys that only look similar are ignored."""
    extra = {"log.a.level": "5", "log.b.level": "info", "log..level": "1", "blog.level": "info"}
    assert read_extra(extra).log_levels == {"a": "fatal", "b": "info"}


@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text()), st.text()))
def test_any_extra_configuration_is_accepted(extra: dict[str, str]) -> None:
    """Any map of texts that an RM may send gives valid settings."""
    assert read_extra(extra).event_max_streams > 0
