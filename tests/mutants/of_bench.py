"""Defects of benches: in whose turn it is, in what is made of figures, and in the gate."""

from mutants.defect import Defect

_BENCH = "server/licorne_server/bench"
_TESTS = "tests/server/bench"
_TESTS_OF_PAIRS = (f"{_TESTS}/test_pairs.py",)
_TESTS_OF_GATE = (f"{_TESTS}/test_gate.py",)
_TESTS_OF_AGAINST = (f"{_TESTS}/test_against.py",)

BENCH = (
    Defect(
        "this-one-always-first",
        f"{_BENCH}/pairs.py",
        "tuple(Side) if number % 2 else tuple(reversed(Side))",
        "tuple(Side)",
        "what changes steadily on the machine costs one side more",
        _TESTS_OF_PAIRS,
    ),
    Defect(
        "ratio-upside-down",
        f"{_BENCH}/pairs.py",
        "this[measure] / other[measure] for this, other in",
        "this[measure] / other[measure] for other, this in",
        "a server that is twice as fast is told to be half as fast",
        _TESTS_OF_PAIRS,
    ),
    Defect(
        "spread-of-one-side",
        f"{_BENCH}/spread.py",
        "return cls(known[0], median(known), known[-1])",
        "return cls(known[0], median(known), median(known))",
        "the greatest figure is not told",
        (f"{_TESTS}/test_spread.py",),
    ),
    Defect(
        "no-second-look",
        f"{_BENCH}/gate.py",
        "first_is_good = len(found) == FIRST and good(found)",
        "first_is_good = len(found) == FIRST",
        "three bad pairs on a busy machine fail a commit",
        _TESTS_OF_GATE,
    ),
    Defect(
        "no-second-look-when-late",
        f"{_BENCH}/gate.py",
        "(len(found) >= SECOND and late())",
        "(len(found) >= FIRST and late())",
        "three bad pairs on a slow machine fail a commit",
        _TESTS_OF_GATE,
    ),
    Defect(
        "failure-of-git-passes",
        f"{_BENCH}/gate.py",
        "    if done.returncode != 0:\n        raise BenchError(",
        "    if done.returncode != 0:\n        raise NothingToCompare(",
        "the gate passes wherever git does not work",
        _TESTS_OF_GATE,
    ),
    Defect(
        "last-parent",
        f"{_BENCH}/gate.py",
        "parents[0]",
        "parents[-1]",
        "a merge is compared with what was merged",
        _TESTS_OF_GATE,
    ),
    Defect(
        "worktree-left-behind",
        f"{_BENCH}/gate.py",
        'git(root, "worktree", "remove", "--force", str(target))',
        "pass",
        "each run of the gate leaves an entry in the repository",
        _TESTS_OF_GATE,
    ),
    Defect(
        "sources-of-another-checkout",
        f"{_BENCH}/against.py",
        "if not Path(build.folder).resolve().is_relative_to(folder.resolve()):",
        "if not build.folder:",
        "a checkout is measured by the sources of another one",
        _TESTS_OF_AGAINST,
    ),
    Defect(
        "changes-not-told",
        f"{_BENCH}/installation.py",
        '("+" if changed else "")',
        '""',
        "figures of changed sources are told as those of a commit",
        _TESTS_OF_AGAINST,
    ),
    Defect(
        "other-sections-lost",
        f"{_BENCH}/markdown.py",
        "*lines[end:]]",
        "]",
        "what was measured before goes when something else is measured",
        (f"{_TESTS}/test_markdown.py",),
    ),
    Defect(
        "headings-in-code",
        f"{_BENCH}/markdown.py",
        "            code = fence[1]",
        "            code = ''",
        "a section is cut at a comment of a command that it shows",
        (f"{_TESTS}/test_markdown.py",),
    ),
    Defect(
        "pictures-of-chance",
        f"{_BENCH}/pictures.py",
        '            "svg.hashsalt": "licorne",\n',
        "",
        "the same figures give another picture",
        (f"{_TESTS}/test_page.py",),
    ),
)
