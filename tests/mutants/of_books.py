"""Defects of what is derived from the books, and of what is booked only where it matters."""

from mutants.defect import Defect

_USAGE = "core/licorne_core/apps/usage.py"
_BOUNDS = "core/licorne_core/handlers/bounds.py"
_BOOK = "core/licorne_core/limits/book.py"
_NODE = "core/licorne_core/nodes/node.py"
_REPORT = "core/licorne_core/views/usage.py"

BOOKS = (
    Defect(
        "most-forgotten",
        _USAGE,
        "        if total > highest.get(name, 0):",
        "        if total < highest.get(name, 0):",
        "the most that an application had goes with what it had",
        ("tests/core/test_scheduler_releases.py",),
    ),
    Defect(
        "known-size-unmeasured",
        _BOUNDS,
        "elif shape in tally.sizes and (tally.requests + 1) * tally.largest <= INT64_MAX:",
        "elif shape in tally.sizes:",
        "asks of a known size take a total beyond int64",
        ("tests/core/test_scheduler_bounds.py",),
    ),
    Defect(
        "new-limit-unbooked",
        _BOOK,
        "        app.quotas = _quotas(app, leaf)\n        _count_usage(app, charge)",
        "        app.quotas = _quotas(app, leaf)",
        "a limit that comes with a reload does not count what is there",
        ("tests/core/limits/test_limits_corners.py",),
    ),
    Defect(
        "foreign-as-our-own",
        _NODE,
        "for left in (self.available, self.occupied):",
        "for left in (self.available,):",
        "what foreign allocations take of a node is reported as allocated",
        ("tests/core/test_scheduler_nodes.py",),
    ),
    Defect(
        "usage-of-leaves-alone",
        _REPORT,
        "        while above:\n",
        '        while above != "root":\n',
        "the usage of a user leaves out what is in the queues below",
        ("tests/core/limits/test_limits_corners.py",),
    ),
)
