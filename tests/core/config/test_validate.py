"""Rules between the queues of a tree (spec § 2.5 #10 to #13, #17)."""

import pytest

from support.core.configurations import complaint, messages, partition_text, problems


@pytest.mark.row(31)
def test_a_maximum_does_not_exceed_that_of_an_ancestor() -> None:
    """For each type a maximum must not exceed the maximum of the nearest ancestor that has one."""
    body = """
        queues:
          - name: p
            resources: {max: {memory: 10}}
            queues:
              - name: q
                resources: {max: {vcore: 2}}
                queues:
                  - {name: r, resources: {max: {memory: 11, vcore: 1}}}
        """
    (problem,) = problems(partition_text(body))
    assert problem.message == (
        "max resource of parent map[memory:10 vcore:2000] is smaller than "
        "maximum resource map[memory:11 vcore:1000] for queue r"
    )
    assert problem.path == "partitions[0].queues[0].queues[0].queues[0].resources.max"
    assert problem.line == 10


@pytest.mark.row(31)
def test_guarantees_of_children_do_not_exceed_that_of_the_parent() -> None:
    """The guarantees of children, or of the children of a child without one, do not exceed the parent's."""
    body = """
        queues:
          - name: p
            resources: {guaranteed: {memory: 10}}
            queues:
              - {name: q, resources: {guaranteed: {memory: 5, vcore: 1}}}
              - {name: r, queues: [{name: s, resources: {guaranteed: {memory: 6}}}]}
        """
    assert complaint(body) == (
        "guaranteed resource of parent map[memory:10] is smaller than sum of guaranteed resources "
        "map[memory:11 vcore:1000] of the children for queue p"
    )


@pytest.mark.row(31)
def test_guarantees_of_children_do_not_exceed_a_maximum() -> None:
    """The sum of the guarantees of children does not exceed any maximum above them."""
    body = """
        queues:
          - name: p
            resources: {max: {memory: 10}}
            queues:
              - name: q
                queues:
                  - {name: r, resources: {guaranteed: {memory: 5}}}
                  - {name: s, resources: {guaranteed: {memory: 6}}}
        """
    text = (
        "max resource map[memory:10] is smaller than sum of guaranteed resources "
        "map[memory:11] of the children for queue "
    )
    assert messages(body) == [f"{text}p", f"{text}q"]


@pytest.mark.row(31)
def test_children_may_fill_their_parent_exactly() -> None:
    """Guarantees and maxima of children that equal those of their parent are accepted."""
    assert not messages("""
        queues:
          - name: p
            resources: {guaranteed: {memory: 10}, max: {memory: 20}}
            queues:
              - {name: q, resources: {guaranteed: {memory: 4}, max: {memory: 20, gpu: 1}}}
              - {name: r, resources: {guaranteed: {memory: 6, gpu: 1}}}
        """)


@pytest.mark.row(37)
def test_max_applications_of_children_do_not_exceed_that_of_the_parent() -> None:
    """A child below a queue with `maxapplications` must have a `maxapplications` that is no greater."""
    body = """
        queues:
          - name: p
            maxapplications: 5
            queues:
              - {name: q, maxapplications: 6}
              - {name: r, maxapplications: 5}
              - {name: s}
              - {name: t, maxapplications: many}
        """
    found = problems(partition_text(body))
    assert [(problem.path[-26:], problem.message) for problem in found] == [
        (".queues[0].maxapplications", "parent maxApplications must be larger than child maxApplications"),
        (
            ".queues[2].maxapplications",
            (
                "maxApplications is either undefined or zero, which is not allowed "
                "when parent queue's maxApplications is defined"
            ),
        ),
        (
            ".queues[3].maxapplications",
            "expected a whole number from 0 to 18446744073709551615, found 'many'",
        ),
    ]
