"""Valid and invalid trace contexts of callers."""

import pytest

from licorne_server.telemetry.tracing.server_spans import current_context, inside, note_call
from licorne_server.wire.asks import MAX_STATE, TraceContext, read_context

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"
CONTEXT = TraceContext(int(TRACE, 16), int(SPAN, 16), sampled=True)


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-fe", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"01-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_contexts_are_read(text: str, *, sampled: bool) -> None:
    """Only the last bit of the flags counts; a later version may have more fields after them."""
    assert read_context(text) == CONTEXT._replace(sampled=sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "-" * 55,
        GOOD.upper(),
        GOOD[:-1],
        f"{GOOD}0",
        f"{GOOD}-more",
        f"01-{TRACE}-{SPAN}-01more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"0x-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}_-{SPAN}-01",
        f"00-{TRACE[:-1]}--{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE[:-1]}\N{ARABIC-INDIC DIGIT ONE}-{SPAN}-01",
        f" {GOOD}"[:55],
        "9" * 100_000,
    ],
)
def test_invalid_contexts_are_ignored(text: str) -> None:
    """Any other text gives no context, and no error."""
    assert read_context(text) is None


def test_a_long_state_is_dropped() -> None:
    """A context whose state is too long is used without the state."""
    assert read_context(GOOD, "a=1") == CONTEXT._replace(state="a=1")
    assert read_context(GOOD, "a" * MAX_STATE) == CONTEXT._replace(state="a" * MAX_STATE)
    assert read_context(GOOD, "a" * (MAX_STATE + 1)) == CONTEXT


def test_metadata_of_a_call() -> None:
    """A call without a context has none, which is no error; a call with two contexts has none either."""
    assert note_call([("user-agent", "x"), ("traceparent", GOOD), ("tracestate", "a=1")])
    assert current_context() == CONTEXT._replace(state="a=1")
    assert note_call([("x-bin", b"1")])
    assert current_context() is None
    assert note_call([("traceparent", GOOD), ("tracestate", "a=1"), ("tracestate", "b=2")])
    assert current_context() == CONTEXT._replace(state="a=1,b=2")
    for wrong in ([GOOD[:-1]], [GOOD, GOOD]):
        assert not note_call([("traceparent", text) for text in wrong])
        assert current_context() is None
    with inside(CONTEXT):
        assert current_context() == CONTEXT
    assert current_context() is None
