"""Defects of traces: whose they are, what they tell, and what they must not cost."""

from mutants.defect import Defect

_BEGINS = "server/licorne_server/tracing/ask_begins.py"
_CONTEXT = "server/licorne_server/tracing/trace_context.py"
_ENDS = "server/licorne_server/tracing/ends.py"
_FOLLOWED = "server/licorne_server/tracing/followed.py"
_LOOKS = "server/licorne_server/tracing/ask_looks.py"
_EXPORTING = "server/licorne_server/tracing/exporting.py"
_SPANS = "server/licorne_server/tracing/spans.py"
_STANDING = "core/licorne_core/views/standing.py"
_TRACED = ("tests/server/tracing/test_traced_asks.py",)
_ENDED = ("tests/server/tracing/test_ends.py",)
_CONTEXTS = ("tests/server/tracing/test_trace_context.py",)
_SENT = ("tests/server/tracing/test_exporting.py",)

TRACES = (
    Defect(
        "callers-no-is-a-yes",
        _SPANS,
        "self._draw() < self._sample if parent is None else parent.sampled",
        "self._draw() < self._sample or parent is not None",
        "what a caller does not trace is traced",
        _TRACED,
    ),
    Defect(
        "call-goes-before-tag",
        _BEGINS,
        "if not text:\n            return call",
        "if not text or call:\n            return call",
        "an ask with a context of its own is in the trace of its stream",
        _TRACED,
    ),
    Defect(
        "reason-once-only",
        _LOOKS,
        "if stands.reason != found.reason:",
        "if not found.reason:",
        "a span tells of the first reason, and of no change",
        _TRACED,
    ),
    Defect(
        "asks-without-bound",
        _FOLLOWED,
        "if self._open.get(rm_id, 0) >= MAX_OF_RM or self._counts.followed >= MAX_FOLLOWED:",
        "if self._counts.followed >= MAX_FOLLOWED:",
        "one RM leaves no room for the asks of others",
        _TRACED,
    ),
    Defect(
        "ends-all-at-once",
        _ENDS,
        "while self._at_once and not self._waiting:",
        "while not self._waiting:",
        "all RMs wait while the spans of one that has gone are ended",
        _ENDED,
    ),
    Defect(
        "asks-begun-all-at-once",
        "server/licorne_server/tracing/tracing.py",
        "            await asyncio.sleep(0)\n            is_more",
        "            is_more",
        "all RMs wait while the spans of the asks of one are begun",
        _ENDED,
    ),
    Defect(
        "long-version-zero",
        _CONTEXT,
        'if more and (version == 0 or more[0] != "-"):',
        'if more and more[0] != "-":',
        "a context of today's version with something behind it is taken",
        _CONTEXTS,
    ),
    Defect(
        "spans-without-bound",
        _EXPORTING,
        "if len(self._waiting) >= MAX_WAITING or",
        "if len(self._waiting) >= 2 * MAX_WAITING or",
        "more spans wait than there may be",
        _SENT,
    ),
    Defect(
        "spans-of-one-rm",
        _EXPORTING,
        "MAX_WAITING or of_rm >= MAX_OF_RM:",
        "MAX_WAITING:",
        "one RM leaves no room for the spans of others",
        _SENT,
    ),
    Defect(
        "assumed-is-placed",
        _STANDING,
        "reason = WAITS_FOR_ANSWER",
        'reason = ""',
        "an ask that the RM is asked about waits for nothing",
        ("tests/core/views/test_standing.py",),
    ),
)
