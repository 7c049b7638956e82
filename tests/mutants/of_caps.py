"""Defects of what one RM may have, and of what is refused while memory is short."""

from mutants.defect import Defect

_CAPS = "core/licorne_core/rm_caps.py"
_APPLICATION = "core/licorne_core/apps/application.py"
_EVENT_LOG = "server/licorne_server/event_log.py"
_TESTS = ("tests/core/test_rm_caps.py",)

CAPS = (
    Defect(
        "one-ask-too-many",
        _CAPS,
        "if self.asks >= self.caps.asks:",
        "if self.asks > self.caps.asks:",
        "an RM may have an ask more than its cap says",
        _TESTS,
    ),
    Defect(
        "footprints-are-free",
        _CAPS,
        "        self.asks += 1\n        self.memory += ASK_BYTES + footprint",
        "        self.asks += 1\n        self.memory += ASK_BYTES",
        "what asks bring along takes no memory",
        _TESTS,
    ),
    Defect(
        "groups-are-free",
        _APPLICATION,
        "        self.holdings.memory -= GROUP_BYTES * len(self.groups)\n",
        "",
        "the groups of an application count for ever",
        _TESTS,
    ),
    Defect(
        "everybody-waits-for-the-largest",
        _CAPS,
        "new and memory >= self.share",
        "new",
        "a small RM is refused for what a large one has",
        _TESTS,
    ),
    Defect(
        "books-dropped-for-want-of-memory",
        "core/licorne_core/handlers/configuration.py",
        "if pressure.shortage is Shortage.ALL or (",
        "if (",
        "an RM that registers again loses its books, and cannot tell what it runs",
        _TESTS,
    ),
    Defect(
        "rest-is-counted-again",
        "core/licorne_core/scheduler.py",
        "        if Hold.UNFINISHED not in rm.holds:\n            # The rest",
        "        if rm.holds or not rm.holds:\n            # The rest",
        "a replay with a large command never ends",
        ("tests/core/test_scheduler_bounds.py",),
    ),
    Defect(
        "large-asks-stay-in-events",
        _EVENT_LOG,
        "self.memory > self._bounds.memory and",
        "False and",
        "asks that came and went fill the memory as events",
        ("tests/server/test_event_log.py",),
    ),
)
