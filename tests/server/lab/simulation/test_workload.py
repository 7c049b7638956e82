"""From traces to jobs: rules, sizes, members, and nodes."""

from collections.abc import Sequence

import pytest

from licorne_core.values.errors import ConfigError
from licorne_core.values.resources import Resources
from licorne_server.lab.simulation.cluster import NodeKind, parse_nodes, recorded
from licorne_server.lab.simulation.loads import LOADS
from licorne_server.lab.simulation.rules import Rules, load_rules
from licorne_server.lab.simulation.traces.model import LeftOut, Part, Trace, TraceJob
from licorne_server.lab.simulation.workload import Job, workload_of

GIB = 1024**3
NODES = (parse_nodes("4xvcore=8,memory=32Gi,nvidia.com/gpu=2"),)


def job_of(*parts: Part, **fields: object) -> TraceJob:
    """A job of a trace."""
    usual: dict[str, object] = {"job": "j", "submit": 5.0, "runtime": 60.0, "parts": parts}
    return TraceJob(**{**usual, **fields})  # type: ignore[arg-type]


def made(
    *jobs: TraceJob,
    rules: Rules | None = None,
    nodes: Sequence[NodeKind] = NODES,
    splits: bool = False,
    relative: bool = False,
    load: float = 1.0,
    limit: int = 0,
) -> list[Job]:
    """The jobs of a workload, none of which is left out."""
    trace = Trace("test", jobs, splits=splits, relative=relative)
    workload = workload_of(trace, nodes, rules or Rules(), load=load, limit=limit)
    assert not workload.left_out
    return list(workload.jobs)


def sizes(job: Job) -> list[tuple[int, Resources]]:
    """The number of members, and the amounts of each."""
    return [(group.number, dict(group.ask_class.items)) for group in job.groups]


def test_members_fill_nodes() -> None:
    """Processors of a job are divided over the fewest nodes, with the remainder on one more."""
    small, large = made(job_of(Part(1, 3.0)), job_of(Part(1, 20.0), job="large"), splits=True)
    assert (sizes(small), small.gang) == ([(1, {"vcore": 3000})], False)
    assert (sizes(large), large.gang) == ([(2, {"vcore": 8000}), (1, {"vcore": 4000})], True)


def test_memory_bounds_the_size_of_members() -> None:
    """A member has no more of anything than a node has."""
    [job] = made(job_of(Part(1, 8.0, memory=64.0 * GIB)), splits=True)
    assert sizes(job) == [(2, {"memory": 32 * GIB, "vcore": 4000})]


def test_members_by_rule() -> None:
    """By rule there is a member for each GPU of a job, or else for each processor."""
    rules = load_rules("members: processor")
    first, second = made(job_of(Part(1, 3.0)), job_of(Part(2, 4.0, 2.0), job="b"), rules=rules)
    assert sizes(first) == [(3, {"vcore": 1000})]
    assert sizes(second) == [(4, {"nvidia.com/gpu": 1, "vcore": 2000})]


def test_members_of_the_trace_are_kept() -> None:
    """Members that a trace names are kept, and parts of a GPU are rounded up."""
    [job] = made(job_of(Part(3, 1.5, 0.5, 1.0 * GIB), Part(1, 0.25)))
    assert sizes(job) == [(3, {"memory": GIB, "nvidia.com/gpu": 1, "vcore": 1500}), (1, {"vcore": 250})]


def test_rules_define_units() -> None:
    """Rules define the size of a processor and a GPU; memory by rule replaces that of the trace."""
    rules = load_rules("sizes: {processor: {vcore: 500m, memory: 2Gi}, gpu: {share: 100}}")
    nodes = [parse_nodes("1xvcore=8,memory=32Gi,share=400")]
    [job] = made(job_of(Part(1, 4.0, 0.25, 1.0)), rules=rules, nodes=nodes)
    assert sizes(job) == [(1, {"memory": 8 * GIB, "share": 25, "vcore": 2000})]


def test_relative_sizes_refer_to_the_largest_node() -> None:
    """Relative sizes are multiplied by the largest node."""
    nodes = [parse_nodes("1xvcore=8,memory=8Gi"), parse_nodes("1xvcore=16,memory=4Gi")]
    [job] = made(job_of(Part(1, 0.25, memory=0.5)), nodes=nodes, relative=True)
    assert sizes(job) == [(1, {"memory": 4 * GIB, "vcore": 4000})]


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Part(1, 9.0), LeftOut.TOO_LARGE),
        (Part(1, 1.0, 3.0), LeftOut.TOO_LARGE),
        (Part(5, 8.0), LeftOut.TOO_MANY),
        (Part(20_000, 0.001), LeftOut.TOO_MANY),
    ],
)
def test_jobs_that_never_fit_are_left_out(part: Part, reason: LeftOut) -> None:
    """A job that does not fit into the empty cluster is left out, and counted."""
    workload = workload_of(Trace("test", [job_of(part)]), NODES, Rules())
    assert (workload.jobs, dict(workload.left_out)) == ((), {reason: 1})
    nothing = workload_of(Trace("test", [job_of(part)]), [NodeKind(9, {"disk": 1})], Rules())
    assert dict(nothing.left_out) == {LeftOut.NO_SUCH_RESOURCE: 1}


RULES = """\
queues:
  - {user: "u1*", queue: q2, to: "root.{partition}.{user}"}
  - {group: staff, to: root.staff, priority: -5}
  - {name: n7, to: root.seven}
gang: false
"""


@pytest.mark.parametrize(
    ("fields", "queue", "priority"),
    [
        ({"user": "17", "queue": "2", "partition": "a.b"}, "root.a_b.u17", 3),
        ({"user": "17", "queue": "3", "group": "staff"}, "root.staff", -5),
        ({"user": "ann", "name": "7"}, "root.seven", 3),
        ({"user": "ann"}, "", 3),
    ],
)
def test_the_first_matching_rule_gives_the_queue(fields: dict[str, str], queue: str, priority: int) -> None:
    """A rule matches by all of its patterns; numbers get a letter, and full stops are replaced."""
    [job] = made(job_of(Part(2, 1.0), priority=3, **fields), rules=load_rules(RULES))
    assert (job.queue, job.priority, job.gang) == (queue, priority, False)


def test_requested_times_are_declared_in_whole_seconds() -> None:
    """A requested time is declared in whole seconds, and a missing one is not declared."""
    jobs = made(job_of(Part(1, 1.0), requested=59.2), job_of(Part(1, 1.0), job="k"))
    assert [job.declared for job in jobs] == [60, 0]


def test_order_load_and_limit_of_jobs() -> None:
    """Jobs are in the order of submission, faster by the load, and the first ones up to the limit."""
    trace = [
        job_of(Part(1, 1.0), job=name, submit=at) for name, at in (("c", 300.0), ("a", 100.0), ("b", 100.0))
    ]
    jobs = made(*trace, load=2.0)
    assert [(job.job, job.submit - jobs[0].submit) for job in jobs] == [("a", 0.0), ("b", 0.0), ("c", 100.0)]
    assert [job.job for job in made(*trace, limit=2)] == ["a", "b"]


def test_jobs_of_equal_names_are_distinct() -> None:
    """Jobs of one name are different jobs."""
    assert [job.job for job in made(job_of(Part(1, 1.0)), job_of(Part(1, 1.0)))] == ["j", "j.2"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("queues: [{user: a}]", "1:10: queues[0].to: no queue"),
        ("queues: [{to: 'root.{day}'}]", "queues[0].to: 'root.{day}' may have {user}, {group}"),
        ("queues: [{to: 'root.{user.x}'}]", "queues[0].to: 'root.{user.x}' may have"),
        ("queues: [{usr: a, to: root.a}]", "unknown key 'usr', did you mean 'user'?"),
        ("members: nodes", "members: 'nodes' is none of node, processor, trace"),
        ("gang: maybe", "gang: expected true or false, found 'maybe'"),
        ("sizes: {core: {vcore: 1}}", "unknown key 'core'"),
    ],
)
def test_an_invalid_rule_has_its_place(text: str, problem: str) -> None:
    """The error of a file of rules has the place and the value."""
    with pytest.raises(ConfigError) as caught:
        load_rules(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("64", "'64' is not of the form 64xvcore=32,memory=128Gi"),
        ("0xvcore=1", "'0xvcore=1' is not of the form"),
        ("2xvcore", "'2xvcore' is not of the form"),
        ("2xvcore=1,vcore=2", "is not of the form"),
        ("2xvcore=many", "invalid quantity 'many' for vcore"),
        ("100001xvcore=1", "at most 100000 are allowed"),
    ],
)
def test_invalid_nodes_are_refused(text: str, problem: str) -> None:
    """Nodes that cannot be parsed are refused with their text."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_nodes(text)
    assert problem in str(caught.value)


def test_a_trace_with_processors_gives_nodes() -> None:
    """A number of processors gives nodes, of one processor if there is no number of nodes."""
    assert recorded(4, 34) == NodeKind(4, {"vcore": 8000})
    assert recorded(0, 34) == NodeKind(34, {"vcore": 1000})
    assert recorded(4, 0) is None


@pytest.mark.parametrize("name", LOADS)
def test_a_seed_gives_the_same_load(name: str) -> None:
    """A seed always gives the same jobs, in order and of a size that fits; another seed gives others."""
    load = LOADS[name]
    one, again, other = (list(load.trace(seed, 60).jobs) for seed in (1, 1, 2))
    assert one == again != other
    assert [job.submit for job in one] == sorted(job.submit for job in one)
    workload = workload_of(load.trace(1, 60), [load.nodes], load.rules or Rules())
    assert (len(workload.jobs), workload.left_out.total()) == (60, 0)
