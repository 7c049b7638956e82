"""The tree of budgets: its text, the place of every problem, and the rules for lists of budgets."""

import pytest

from licorne_core.extensions.budgets.messages import Budget, BudgetPattern
from licorne_core.extensions.budgets.tree import check_budgets, check_slices, load_budgets
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.values.names import fits_pattern

TREE = """\
floating: [licence/matlab]
budgets:
  - name: company
    limit: {vcore: 500, licence/matlab: 10}
    members: [{rm: "*", partition: default, queue: root.research}]
    budgets: [{name: vision, limit: {memory: 4Gi}, members: [{queue: root.vision}]}]
  - name: guests
"""


def complaints(text: str) -> list[str]:
    """The problems of a text, one in each line."""
    with pytest.raises(ConfigError) as caught:
        load_budgets(text)
    return [str(problem) for problem in caught.value.problems]


def test_a_tree_is_parsed_to_a_list() -> None:
    """The list has paths as names, parents first, quantities as in queues, and `*` for a missing pattern."""
    tree = load_budgets(TREE)
    assert tree.floating == {"licence/matlab"}
    assert tree.budgets == (
        Budget(
            name="company",
            limit={"vcore": 500_000, "licence/matlab": 10},
            members=(BudgetPattern(partition="default", queue="root.research"),),
        ),
        Budget(
            name="company/vision",
            limit={"memory": 4 * 1024**3},
            members=(BudgetPattern(queue="root.vision"),),
        ),
        Budget(name="guests", limit={}),
    )
    check_budgets(tree.budgets, tree.floating)


@pytest.mark.parametrize("text", ["", "# nothing\n", "budgets: []\n"])
def test_a_text_without_budgets_removes_all(text: str) -> None:
    """An empty text, a comment, and an empty list are parsed to no budgets."""
    assert load_budgets(text).budgets == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "budgets: [{name: a, limits: {}}]",
            "1:21: budgets[0].limits: unknown key 'limits', did you mean 'limit'?",
        ),
        ("budgets: [{name: a}, {name: a}]", "1:29: budgets[1].name: duplicate budget 'a'"),
        (
            "budgets: [{name: a/b}]",
            "1:18: budgets[0].name: invalid name 'a/b', budgets below it are given in its 'budgets'",
        ),
        (
            "budgets: [{limit: {}}]",
            (
                "1:11: budgets[0].name: invalid name '', max 64 characters consisting of alphanumeric "
                "characters and '-', '_', '.', '#', '@', ':' allowed"
            ),
        ),
        (
            "budgets: [{name: a, limit: {vcore: -1}}]",
            (
                "1:36: budgets[0].limit.vcore: invalid quantity '-1' for vcore, expected a whole number, "
                "alone or with m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"
            ),
        ),
        ("floating: [vcore]", "1:12: floating[0]: vcore is a resource of nodes and cannot float"),
        (
            "budgets: [{name: a, members: [{queue: '" + "q" * 1025 + "'}]}]",
            "1:39: budgets[0].members[0].queue: 1025 characters, at most 1024 are allowed",
        ),
        (
            "budgets: [{name: a, members: [" + "{}, " * 101 + "]}]",
            "1:30: budgets[0].members: 101 members, at most 100 are allowed",
        ),
    ],
)
def test_a_problem_has_its_place(text: str, problem: str) -> None:
    """An invalid text is refused with line, column, path and reason."""
    assert complaints(text) == [problem]


def test_the_levels_of_budgets_are_bounded() -> None:
    """A ninth level is refused with its place."""
    text = "budgets: [" + "{name: a, budgets: [" * 9 + "]}" * 9 + "]"
    (problem,) = complaints(text)
    assert problem.endswith("9 levels of budgets, at most 8 are allowed")


def test_the_number_of_budgets_is_bounded() -> None:
    """Reading ends at the first budget beyond the cap."""
    text = "budgets:\n" + "".join(f"- name: b{number}\n" for number in range(1001))
    (problem,) = complaints(text)
    assert problem.endswith("1001 budgets, at most 1000 are allowed")


def test_the_number_of_wildcard_members_is_bounded() -> None:
    """At most 1000 members may have a wildcard in their queue, as each new leaf is compared with them."""
    member = "{queue: 'root.*'}"
    budgets = "".join(f"- {{name: b{n}, members: [{', '.join([member] * 91)}]}}\n" for n in range(11))
    (problem,) = complaints(f"budgets:\n{budgets}")
    assert "1001 members with a wildcard in the path of a queue" in problem


def test_members_at_their_bounds_are_accepted() -> None:
    """The longest pattern is accepted, and so is any number of members for all queues."""
    budgets = [Budget(name=f"b{number}", limit={}, members=(BudgetPattern(),) * 91) for number in range(11)]
    check_budgets([*budgets, Budget(name="a", limit={}, members=(BudgetPattern(rm="r" * 1024),))])


@pytest.mark.parametrize(
    ("budgets", "problem"),
    [
        (
            [Budget(name="a/b", limit={})],
            "budgets[0].name: no budget 'a' comes before 'a/b', which is below it",
        ),
        (
            [Budget(name="a", limit={"x": -1})],
            "budgets[0].limit: x of -1, expected 0 to 9223372036854775807",
        ),
        (
            [Budget(name="a", limit={}, slices={RmId("r"): {"x": 2**63}})],
            "budgets[0].slices[r]: x of 9223372036854775808, expected 0 to 9223372036854775807",
        ),
        (
            [Budget(name="a", limit={}, members=(BudgetPattern(rm=""),))],
            "budgets[0].members[0].rm: an empty pattern, write * for all",
        ),
    ],
)
def test_budgets_of_an_operator_obey_the_rules_of_the_file(budgets: list[Budget], problem: str) -> None:
    """Budgets of an operator obey the rules of the file; a problem names the field."""
    with pytest.raises(ConfigError) as caught:
        check_budgets(budgets)
    assert [str(one) for one in caught.value.problems] == [problem]


def test_slices_are_in_range() -> None:
    """Slices that the escrow moves must be in range, for whichever RM."""
    check_slices({RmId("r"): {"x": 0}})
    with pytest.raises(ConfigError, match=r"slices\[r\]: x of -1"):
        check_slices({RmId("r"): {"x": -1}})


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*b", "ab", True),
        ("a*a", "a", False),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "a1c2b", False),
        ("*b*b*", "ab", False),
        ("root.*.q1", "root.a.b.q1", True),
        ("a**b", "ab", True),
    ],
)
def test_a_wildcard_matches_any_characters(pattern: str, name: str, fits: bool) -> None:
    """A pattern matches the whole name, with any characters or none for each wildcard."""
    assert fits_pattern(pattern, name) is fits


def test_a_pattern_ignores_the_case_of_partitions() -> None:
    """RMs are compared exactly, and partitions without regard to case."""
    pattern = BudgetPattern(rm="rm*", partition="GPU")
    assert pattern.fits_partition(PartitionName("[rm1]gpu"))
    assert not pattern.fits_partition(PartitionName("[RM1]gpu"))
