"""Defects of what is measured and shown: times, counts, reasons, bounds and names."""

from mutants.defect import Defect

_ALLOCATIONS = "core/licorne_core/handlers/allocations.py"
_CENSUS = "core/licorne_core/views/census.py"
_CHECKS = "server/licorne_server/measures/checks.py"
_HISTOGRAM = "server/licorne_server/measures/histogram.py"
_INTAKE = "server/licorne_server/services/conversation.py"
_METRICS = "server/licorne_server/http/metrics.py"
_OF_RM = "server/licorne_server/measures/of_rm.py"
_QUEUES = "server/licorne_server/http/queue_metrics.py"
_MEASURES = ("tests/server/test_measures.py",)
_SERVED = ("tests/server/test_measures_served.py",)
_BOUNDS = ("tests/server/http/test_metric_bounds.py",)

METRICS = (
    Defect(
        "bounds-exclude",
        _HISTOGRAM,
        "self._counts[bisect_left(self.bounds, value)] += times",
        "self._counts[__import__('bisect').bisect_right(self.bounds, value)] += times",
        "a value on a bound counts as above it",
        _MEASURES,
    ),
    Defect(
        "recovered-are-timed",
        _OF_RM,
        "if ask.node_id is None and ask.read_time:",
        "if ask.read_time:",
        "what an RM replays counts as decided at once",
        _MEASURES,
    ),
    Defect(
        "one-of-a-run-is-timed",
        _OF_RM,
        "                times += 1\n        if times:",
        "                times = 1\n        if times:",
        "of the asks of a message one counts",
        _MEASURES,
    ),
    Defect(
        "asks-are-not-timed",
        _INTAKE,
        "size=size, time=now))",
        "size=size))",
        "nobody notes when the asks of a session were read",
        _SERVED,
    ),
    Defect(
        "checks-of-old-sessions",
        _OF_RM,
        "        self.checks = CheckTimes()\n        self.is_refused = False\n        self._eff",
        "        self.is_refused = False\n        self._eff",
        "checks of a new registration are taken for those of the one before",
        ("tests/server/test_measures.py::test_a_new_registration_numbers_checks_anew",),
    ),
    Defect(
        "last-check-of-a-message",
        _CHECKS,
        "counts[bisect_left(written, (check,))] += 1",
        "counts[bisect_left(written, (check + 1,))] += 1",
        "the last check of a message counts as of the next one",
        _MEASURES,
    ),
    Defect(
        "reasons-of-texts",
        _ALLOCATIONS,
        'raise Rejected(f"failed to find application {ask.app_id}", Refusal.UNKNOWN_APPLICATION)',
        'raise Rejected(f"failed to find application {ask.app_id}", Refusal.INVALID)',
        "an ask of an unknown application counts as malformed",
        _SERVED,
    ),
    Defect(
        "holds-stop-nobody",
        _CENSUS,
        "if partition.holds or not partition.nodes.by_id:",
        "if not partition.nodes.by_id:",
        "asks that wait for the end of a hold wait for something else",
        ("tests/core/views/test_census.py",),
    ),
    Defect(
        "assumed-are-lost",
        _CENSUS,
        "if len(app.requests) == app.allocation_count and not app.assumed_count:",
        "if len(app.requests) == app.allocation_count:",
        "asks that wait for an answer of the RM count nowhere",
        ("tests/core/views/test_census.py",),
    ),
    Defect(
        "first-come-has-all-samples",
        _METRICS,
        "shown = Shown(MAX_SAMPLES // len(rms))",
        "shown = Shown(MAX_SAMPLES)",
        "one RM may have the samples of all",
        _BOUNDS,
    ),
    Defect(
        "hidden-queues-hide-asks",
        _QUEUES,
        "key = (*self._place, path if path in seen else OTHERS, reason)",
        "key = (*self._place, path, reason)",
        "queues without samples have samples all the same",
        _BOUNDS,
    ),
    Defect(
        "colliding-names-overwrite",
        "server/licorne_server/http/families.py",
        "values[where] = values.get(where, 0) + n",
        "values[where] = n",
        "of two queues with one name the last one is shown",
        ("tests/server/http/test_older_metrics.py",),
    ),
)
