"""An RM that plays jobs, with waits that equal those calculated by hand."""

import pytest

from licorne_core.config import load
from licorne_core.values.resources import VCORE
from licorne_server.lab.simulation.cluster import NodeKind, parse_nodes
from licorne_server.lab.simulation.loads import LOADS
from licorne_server.lab.simulation.policies import POLICIES, made_config, with_policy
from licorne_server.lab.simulation.rules import QueueRule, Rules
from licorne_server.lab.simulation.runs import Config, Run, Setup, TraceSource, only_leaf, play
from licorne_server.lab.simulation.traces.model import Part, Trace, TraceJob

FIFO = POLICIES["fifo"]


def job(name: str, submit: float, runtime: float, *parts: Part, **fields: str) -> TraceJob:
    """A job of a trace."""
    return TraceJob(job=name, submit=submit, runtime=runtime, parts=parts, **fields)  # type: ignore[arg-type]


def played(
    *jobs: TraceJob,
    nodes: str,
    policy: str = "fifo",
    config: str = "",
    gangs: bool = True,
    timeout: float = 900.0,
) -> Run:
    """The run of some jobs."""
    rules = Rules(otherwise="root.{queue}") if config else None
    setup = Setup(nodes=[parse_nodes(nodes)], rules=rules, gang_timeout=timeout)
    source = TraceSource(Trace("test", jobs, gangs=gangs, splits=False))
    of_operator = Config(name="", text=config) if config else None
    return play(source, setup, POLICIES[policy], of_operator)


def times(run: Run) -> dict[str, tuple[float, float]]:
    """Start and end of each job, from the first submission."""
    begin = run.outcome.courses[0].job.submit
    return {
        course.job.job: (course.start - begin, course.end - begin)
        for course in run.outcome.courses
        if course.start is not None and course.end is not None
    }


def test_waits_equal_those_calculated_by_hand() -> None:
    """On one node of four cores, first come, first served, every time is the calculated one."""
    run = played(
        job("a", 0, 100, Part(1, 4.0)),
        job("b", 10, 50, Part(1, 2.0)),
        job("c", 20, 30, Part(1, 2.0)),
        job("d", 20, 10, Part(1, 2.0)),
        nodes="1xvcore=4",
    )
    assert times(run) == {"a": (0, 100), "b": (100, 150), "c": (100, 130), "d": (130, 140)}
    figures = run.figures
    assert (figures.jobs, figures.ended, figures.waiting, figures.rejected) == (4, 4, 0, 0)
    assert (figures.wait_mean, figures.wait_p50, figures.wait_p99) == (70.0, 80.0, 110.0)
    assert figures.slowdown_mean == pytest.approx((1 + 140 / 50 + 110 / 30 + 120 / 10) / 4)
    assert (figures.makespan, figures.resource, figures.utilisation) == (150.0, VCORE, 1.0)


def test_a_gang_starts_with_its_last_member() -> None:
    """The run of a gang begins with its last member, and it has its run time from then on."""
    run = played(
        job("a", 0, 100, Part(1, 4.0)),
        job("gang", 10, 50, Part(2, 4.0)),
        job("late", 20, 10, Part(1, 4.0)),
        nodes="2xvcore=4",
    )
    assert times(run) == {"a": (0, 100), "gang": (100, 150), "late": (150, 160)}


def test_members_without_a_gang_start_one_by_one() -> None:
    """Each member without a gang runs from its own start; the job ends with the last one."""
    run = played(job("a", 0, 100, Part(3, 4.0)), nodes="2xvcore=4", gangs=False)
    assert times(run) == {"a": (100, 200)}
    assert run.figures.wait_mean == 100.0


def test_jobs_without_length_end_at_once() -> None:
    """A job that runs for no time is placed and ends at once."""
    assert times(played(job("a", 0, 0, Part(1, 1.0)), nodes="1xvcore=4")) == {"a": (0, 0)}


def test_a_gang_that_times_out_is_submitted_again() -> None:
    """A gang that times out releases its members' resources, and is placed completely later."""
    jobs = (job("a", 0, 500, Part(1, 4.0)), job("gang", 10, 50, Part(2, 4.0)), job("b", 20, 10, Part(1, 4.0)))
    run = played(*jobs, nodes="2xvcore=4", timeout=100.0)
    assert run.figures.gang_timeouts > 0
    assert times(run)["b"] == (110, 120)
    start, end = times(run)["gang"]
    assert start >= 500
    assert end == start + 50


GUARANTEED = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a, resources: {guaranteed: {vcore: 2}}}
          - {name: b, resources: {guaranteed: {vcore: 2}}}
"""


def test_victims_run_again_in_full() -> None:
    """Members that are preempted lose their work, and run again in full."""
    jobs = (job("a", 0, 5000, Part(4, 1.0), queue="a"), job("b", 100, 100, Part(2, 1.0), queue="b"))
    run = played(*jobs, nodes="1xvcore=4", policy="fair-preempting", config=GUARANTEED, gangs=False)
    begin, end = times(run)["b"]
    assert 1000 <= begin <= 1002
    assert end == begin + 100
    assert times(run)["a"] == (end, end + 5000)
    assert run.figures.preempted == 2
    assert run.figures.lost_work == pytest.approx(2 * 1000 * begin)
    assert run.figures.below_guarantee > 0


def test_a_gang_with_a_victim_is_submitted_again() -> None:
    """A gang that loses a member is submitted again with all members."""
    jobs = (job("a", 0, 5000, Part(4, 1.0), queue="a"), job("b", 100, 100, Part(2, 1.0), queue="b"))
    run = played(*jobs, nodes="1xvcore=4", policy="fair-preempting", config=GUARANTEED, timeout=10_000.0)
    start, end = times(run)["a"]
    assert start >= times(run)["b"][1]
    assert end == start + 5000
    assert run.outcome.courses[0].submissions == 2


def test_rejected_jobs_are_counted() -> None:
    """A job without a queue in the configuration is counted with the reason."""
    jobs = (job("a", 0, 10, Part(1, 1.0), queue="a"), job("b", 0, 10, Part(1, 1.0), queue="nowhere"))
    run = played(*jobs, nodes="1xvcore=4", config=GUARANTEED)
    assert (run.figures.rejected, run.figures.ended) == (1, 1)
    [(reason, number)] = run.outcome.rejections.items()
    assert "root.nowhere" in reason
    assert number == 1


def test_jobs_that_never_start_are_counted() -> None:
    """A run ends although a job waits for ever, and the job counts with its wait until then."""
    small = GUARANTEED.replace("{name: a, resources: {", "{name: a, resources: {max: {vcore: 2}, ")
    jobs = (job("a", 0, 10, Part(1, 3.0), queue="a"), job("b", 0, 10, Part(1, 3.0), queue="b"))
    figures = played(*jobs, nodes="1xvcore=4", config=small).figures
    assert (figures.ended, figures.waiting, figures.wait_p50, figures.makespan) == (1, 1, 0.0, 10.0)
    assert figures.wait_p99 > 86_400


def test_priorities_order_waiting_jobs() -> None:
    """Of two waiting jobs, the one of higher priority starts first, if the policy has priorities."""
    rules = Rules(queues=(QueueRule(patterns={"queue": "fast"}, to="", priority=5),))
    jobs = [
        job("a", 0, 100, Part(1, 4.0)),
        job("b", 10, 10, Part(1, 4.0)),
        job("c", 20, 10, Part(1, 4.0), queue="fast"),
    ]
    setup = Setup(nodes=[parse_nodes("1xvcore=4")], rules=rules)
    starts = {
        name: times(play(TraceSource(Trace("test", jobs)), setup, POLICIES[name], None))["c"][0]
        for name in ("fifo", "priority")
    }
    assert starts == {"fifo": 110, "priority": 100}


@pytest.mark.parametrize("name", LOADS)
def test_runs_are_repeatable(name: str) -> None:
    """The same seed gives the same figures; all jobs of a generated load end."""
    made = LOADS[name]
    setup = Setup(nodes=[made.nodes], rules=made.rules)
    config = Config(name="", text=made.config) if made.config else None
    one, again = (play(TraceSource(made.trace(3, 40)), setup, POLICIES["fair"], config) for _ in range(2))
    assert one.figures == again.figures
    assert one.figures.ended == 40


@pytest.mark.parametrize("name", POLICIES)
def test_policies_are_valid(name: str) -> None:
    """The settings of each policy are valid, in a generated configuration and in an operator's."""
    policy = POLICIES[name]
    made = made_config(policy, ["root.users.ann", "root.users.bob"], {VCORE: 9000})
    assert load(made, strict=True).partitions[0].preemption_enabled is policy.preemption
    [partition] = load(with_policy(GUARANTEED, policy), strict=True).partitions
    assert partition.node_sort.type.value == policy.node_order
    assert policy.properties.items() <= partition.root.properties.items()


def test_a_configuration_without_root_gets_one() -> None:
    """Queues beside root are placed below it with a policy as well."""
    text = "partitions: [{name: default, queues: [{name: a}, {name: b}]}]"
    assert with_policy(text, FIFO).count("name: root") == 1
    assert [queue.name for queue in load(with_policy(text, FIFO)).partitions[0].root.queues] == ["a", "b"]


def test_jobs_use_the_only_leaf() -> None:
    """Jobs use the only leaf of a configuration; of several, the default queue."""
    one = "partitions: [{name: default, queues: [{name: root, queues: [{name: a, queues: [{name: b}]}]}]}]"
    assert only_leaf(one) == "root.a.b"
    assert only_leaf(GUARANTEED) == "root.default"


def test_rules_with_queues_outside_of_root_are_refused() -> None:
    """A queue of the rules that is not below root is refused."""
    with pytest.raises(ValueError, match="queue 'batch' is not below root"):
        made_config(FIFO, ["batch"], {VCORE: 1000})


def test_kinds_of_nodes_are_registered_in_order() -> None:
    """Kinds of nodes are registered one after the other."""
    run = play(
        TraceSource(Trace("test", [job("a", 0, 5, Part(1, 8.0)), job("b", 0, 5, Part(1, 2.0))])),
        Setup(nodes=[NodeKind(1, {VCORE: 2000}), NodeKind(1, {VCORE: 8000})]),
        FIFO,
        None,
    )
    assert times(run) == {"a": (0, 5), "b": (0, 5)}
