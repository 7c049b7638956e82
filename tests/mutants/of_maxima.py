"""Defects of the enforcing of changed maxima (spec § 9.6)."""

from mutants.defect import Defect

_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
_QUOTA_CHANGE = "core/licorne_core/preemption/quota_change.py"
_MAXIMA = _SCENARIO + "[quota_change]"
_TIMES = _SCENARIO + "[quota_change_times]"

MAXIMA = (
    Defect(
        "below-its-maximum",
        _QUOTA_CHANGE,
        "excess = _staying(queue, name) - bound",
        "excess = _staying(queue, name) - bound + 1",
        "a queue loses more than it has above its maximum",
        (_MAXIMA,),
    ),
    Defect(
        "maximum-counts-what-is-going",
        _QUOTA_CHANGE,
        "return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)",
        "return queue.allocated.get(name, 0)",
        "a queue loses once more what it is losing already",
        (_TIMES,),
    ),
    Defect(
        "longer-delay-counts-from-now",
        _QUOTA_CHANGE,
        "return start + (after.delay - before.delay)",
        "return now + after.delay",
        "every configuration update puts the enforcement of a maximum off",
        (_TIMES,),
    ),
    Defect(
        "enforced-for-ever",
        _QUOTA_CHANGE,
        "        for queue in due:\n            del self._starts[queue]\n",
        "",
        "a maximum is enforced again every second",
        (_MAXIMA, _TIMES),
    ),
    Defect(
        "maximum-of-vital-ones",
        _QUOTA_CHANGE,
        "        ask.priority,\n        max(0.0, now - request.create_time) // _HOUR,",
        "        -ask.priority,\n        max(0.0, now - request.create_time) // _HOUR,",
        "the most important go first when a maximum is enforced",
        (_MAXIMA,),
    ),
    Defect(
        "growth-is-overlooked",
        _QUOTA_CHANGE,
        "if delay and queue not in self._starts and is_above_max(queue):",
        "if delay and queue in self._starts and is_above_max(queue):",
        "what is put into a queue by force stays above its maximum",
        (_MAXIMA,),
    ),
)
