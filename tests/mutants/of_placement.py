"""Defects of placement."""

from mutants.defect import Defect

_FILTERS = "core/licorne_core/placement/filters.py"
_RULE = "core/licorne_core/placement/rule.py"
_CHAIN = "core/licorne_core/placement/chain.py"
_REFUSAL = "core/licorne_core/placement/refusal.py"

PLACEMENT = (
    Defect(
        "empty-denial-admits",
        _FILTERS,
        "        return only_for.allow\n",
        "        return True\n",
        "a filter that denies everybody admits everybody",
        ("tests/core/placement/test_filters.py",),
    ),
    Defect(
        "pattern-in-company",
        "core/licorne_core/config/name_list.py",
        "alone = len(entries) == 1 and is_pattern(entries[0])",
        "alone = len(entries) >= 1 and is_pattern(entries[0])",
        "the first of several entries is taken for a pattern",
        ("tests/core/placement/test_filters.py",),
    ),
    Defect(
        "user-without-groups",
        "core/licorne_core/placement/identity_check.py",
        "return who if who.groups else UserGroup(who.user, (who.user,))",
        "return who",
        "a user without groups is in none, not even in the own",
        ("tests/core/placement/test_identity_check.py",),
    ),
    Defect(
        "below-a-leaf",
        _RULE,
        "if queue is not None and queue.is_leaf:",
        "if queue is not None and queue.is_leaf and not queue.managed:",
        "a leaf is taken for the parent of a rule's queue",
        ("tests/core/placement/test_transcripts.py", "tests/core/placement/test_chain.py"),
    ),
    Defect(
        "path-in-capitals",
        _RULE,
        "path = path.lower()",
        "path = str(path)",
        "placement makes a queue of each spelling",
        ("tests/core/placement/test_transcripts.py", "tests/core/placement/test_chain.py"),
    ),
    Defect(
        "one-full-stop",
        "core/licorne_core/rule_kinds.py",
        'return value.replace(".", "_dot_")',
        'return value.replace(".", "_dot_", 1)',
        "the second full stop of a name makes a level",
        ("tests/core/placement/test_transcripts.py", "tests/core/placement/test_chain.py"),
    ),
    Defect(
        "last-of-equal-tags",
        "core/licorne_core/tags.py",
        "return min(((key, tags[key])",
        "return max(((key, tags[key])",
        "of tags that differ in case the last by name counts",
        ("tests/core/placement/test_identity_check.py",),
    ),
    Defect(
        "below-recovery",
        _REFUSAL,
        'if path == RECOVERY_PATH or path.startswith(f"{RECOVERY_PATH}."):',
        "if path == RECOVERY_PATH:",
        "rules may place below the recovery queue",
        ("tests/core/placement/test_transcripts.py", "tests/core/placement/test_chain.py"),
    ),
    Defect(
        "reasons-without-end",
        _REFUSAL,
        "if told and length > MAX_REASONS:",
        "if told and length > 1000 * MAX_REASONS:",
        "a rejection repeats the reasons of a thousand rules",
        ("tests/core/placement/test_refusal.py",),
    ),
    Defect(
        "everybody-recovers",
        _CHAIN,
        "            if not is_forced(app):\n                raise\n",
        "            if is_forced(app):\n                raise\n",
        "who is not forced is recovered, who is forced is refused",
        ("tests/core/placement/test_transcripts.py", "tests/core/placement/test_chain.py"),
    ),
)
