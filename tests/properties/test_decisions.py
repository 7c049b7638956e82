"""The core makes the same decisions as a plain sequential scheduler, the oracle, in the same order."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from extensions.backfill.test_shadows import job
from licorne_core.handlers import turn
from licorne_core.messages.commands import Command, Tick
from licorne_core.model.nodes.book import Packing
from licorne_core.values.slices import Tuning
from support.core.builders import START, app, apps, asks, config, node, nodes, register
from support.seeds import lively
from support.worlds import Step, World, compare, shown, shrink
from support.worlds.backfill import SHARE
from support.worlds.configs import ConfigMaker
from support.worlds.elastic import SHARE as ELASTIC
from support.worlds.playing import REST

Play = Callable[[Sequence[Step]], int]

SHORT = 50
"""Steps of a short world."""

MOSTLY = 0.9
"""The share of gangs, or of preempting asks, in worlds where they predominate."""

CROWDED = 60
"""Steps of a world of preemption."""

GANGS = 80
"""Steps of a world of gangs: replacements and timeouts take time."""

LONG = 400
"""Steps of the few long worlds, in which heaps are compacted and logs are read late."""


def agree(
    part: range,
    play: Play = compare,
    length: int = SHORT,
    *,
    gangs: float | None = None,
    preempting: float | None = None,
    backfill: float = SHARE,
    shortest: float = 0.0,
    maxima: float = 0.0,
    notices: bool = False,
    reclaims: bool = False,
    closes: bool = False,
    elastic: float = ELASTIC,
    topology: bool | None = None,
) -> None:
    """Play the worlds; the first in which core and oracle differ is shrunk and printed."""
    decisions = 0
    for seed in part:
        script = World(
            seed,
            length,
            gangs=gangs,
            preempting=preempting,
            backfill=backfill,
            shortest=shortest,
            maxima=maxima,
            notices=notices,
            reclaims=reclaims,
            closes=closes,
            elastic=elastic,
            topology=topology,
        ).steps
        try:
            decisions += play(script)
        except Exception as error:
            pytest.fail(f"world {seed}: {error}\n\n{narrowed(script, play, error)}", pytrace=False)
    assert decisions >= 5 * lively(len(part)), f"the worlds are too quiet: {decisions} decisions"


def narrowed(script: Sequence[Step], play: Play, error: Exception) -> str:
    """The shortest script found that fails with the same kind of error, one step per line."""

    def fails(candidate: Sequence[Step]) -> bool:
        try:
            play(candidate)
        except Exception as other:
            return type(other) is type(error)
        return False

    return shown(shrink(script, fails))


@pytest.mark.worlds
def test_core_and_oracle_agree(part: range) -> None:
    """Core and oracle make the same decisions, and keep the same books, in every random world."""
    agree(part)


@pytest.mark.worlds(first=2_500_000, one_in=4)
def test_core_and_oracle_agree_with_gangs(part: range) -> None:
    """Nearly all applications are gangs, which start together, are replaced, time out and complete."""
    agree(part, length=GANGS, gangs=MOSTLY)


@pytest.mark.worlds(first=2_800_000, one_in=2)
def test_core_and_oracle_agree_with_preemption(part: range) -> None:
    """Nearly all asks may preempt: victims are stopped, and beneficiaries are placed."""
    agree(part, length=CROWDED, preempting=MOSTLY)


@pytest.mark.worlds(first=3_100_000, one_in=5)
def test_core_and_oracle_agree_with_notices(part: range) -> None:
    """Queues have notices: victims are ready, late, spared or stopped, and have checkpoints."""
    agree(part, length=CROWDED, preempting=MOSTLY, notices=True)


@pytest.mark.worlds(first=3_800_000, one_in=4)
@pytest.mark.parametrize("notices", [False, True], ids=["at once", "with notice"])
def test_core_and_oracle_agree_with_fair_shares(part: range, notices: bool) -> None:
    """Most queues preempt up to their fair shares, others up to their guarantees."""
    agree(part, length=CROWDED, preempting=MOSTLY, notices=notices, reclaims=True)


@pytest.mark.worlds(first=3_300_000, one_in=10)
@pytest.mark.parametrize("notices", [False, True], ids=["at once", "with notice"])
def test_core_and_oracle_agree_with_elastic_gangs(part: range, notices: bool) -> None:
    """All gangs are elastic: they start, grow, lose nodes, and are preempted in whole steps."""
    agree(part, length=CROWDED, gangs=0.3, preempting=MOSTLY, notices=notices, elastic=1.0)


@pytest.mark.worlds(first=1_000_000, one_in=10)
@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(slice_size=1),
        Tuning(fill_work=1),
    ],
    ids=["slices of one", "node by node"],
)
def test_the_size_of_slices_changes_no_decision(part: range, tuning: Tuning) -> None:
    """Core and oracle agree even with the smallest slices."""
    agree(part, partial(compare, tuning=tuning))


@pytest.mark.worlds(first=3_100_000, one_in=6)
@pytest.mark.parametrize(
    ("shortest", "closes", "length"),
    [(0.0, False, CROWDED), (0.9, False, 3 * CROWDED), (0.0, True, CROWDED)],
    ids=["in order", "shortest first", "opening hours"],
)
def test_core_and_oracle_agree_with_backfill(part: range, shortest: float, closes: bool, length: int) -> None:
    """Blocked asks hold shadow starts: other asks pass, ends are early and late, and nodes are removed."""
    agree(part, length=length, backfill=1.0, shortest=shortest, closes=closes)


@pytest.mark.worlds(first=3_650_000, one_in=6)
@pytest.mark.parametrize("work", [1, 4_000], ids=["node by node", "at once"])
def test_core_and_oracle_agree_with_starts_under_maxima(part: range, work: int) -> None:
    """Queues have low maxima, which rise and fall while shadow starts are held under them."""
    agree(
        part,
        partial(compare, tuning=Tuning(fill_work=work)),
        length=CROWDED,
        gangs=0.0,
        backfill=1.0,
        maxima=0.7,
    )


@pytest.mark.worlds(first=3_500_000, one_in=5)
@pytest.mark.parametrize("backfill", [0.0, 1.0], ids=["now", "planned"])
@pytest.mark.pure
def test_core_and_oracle_agree_with_packed_domains(
    part: range, backfill: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an ask lacks a node, the fullest node in the fullest domain of each level is used first."""
    packing = Packing((("zone",), ("zone", "rack")), ("gpu", "vcore"))
    monkeypatch.setattr(ConfigMaker, "_node_order", lambda _: {})
    monkeypatch.setattr(turn, "all_of", lambda wanted: packing if wanted else None)
    agree(part, length=GANGS, backfill=backfill, topology=True)


@pytest.mark.worlds(first=3_200_000, one_in=40)
def test_the_size_of_slices_changes_no_shadow_start(part: range) -> None:
    """Core and oracle agree on shadow starts even if a search examines one node per slice."""
    agree(part, partial(compare, tuning=Tuning(fill_work=1)), CROWDED, backfill=1.0)


@pytest.mark.worlds(first=1_500_000, one_in=10)
@pytest.mark.parametrize(("gangs", "backfill"), [(None, SHARE), (MOSTLY, 1.0)], ids=["usual", "backfill"])
def test_core_and_oracle_agree_without_reservations(
    part: range, gangs: float | None, backfill: float
) -> None:
    """Core and oracle agree if nodes are not reserved for blocked asks."""
    agree(part, partial(compare, reserving=False), GANGS, gangs=gangs, backfill=backfill)


@pytest.mark.worlds(first=2_000_000, one_in=100, size=3)
def test_core_and_oracle_agree_in_long_worlds(part: range) -> None:
    """Core and oracle agree in worlds of 400 steps, so no cache is outdated after a long time."""
    agree(part, length=LONG)


NODE_BY_NODE = partial(compare, tuning=Tuning(fill_work=1))
OF_DOMAINS = partial(agree, gangs=MOSTLY, topology=True)
OF_PREEMPTION = partial(agree, preempting=MOSTLY)
OF_ELASTIC_GANGS = partial(agree, length=CROWDED, gangs=0.3, preempting=MOSTLY, elastic=1.0)


@pytest.mark.parametrize(
    ("decides", "seed"),
    [
        pytest.param(partial(OF_ELASTIC_GANGS, notices=True), 3_330_101, id="checkpoint of what has ended"),
        pytest.param(OF_ELASTIC_GANGS, 3_360_041, id="answer after a back-off"),
        pytest.param(partial(OF_DOMAINS, length=75, backfill=0.0), 61_000_213, id="back-off after a maximum"),
        pytest.param(partial(OF_DOMAINS, length=CROWDED), 74_000_325, id="node for a member of a lost place"),
        pytest.param(partial(OF_DOMAINS, length=100), 73_000_389, id="lost place for which the RM is asked"),
        pytest.param(partial(OF_DOMAINS, length=94), 74_200_267, id="second ask after an answer about nodes"),
        pytest.param(OF_DOMAINS, 75_000_499, id="no member left in any domain"),
        pytest.param(
            partial(agree, length=180, backfill=1.0, shortest=0.9), 3_100_008, id="order of those that pass"
        ),
        pytest.param(agree, 260, id="ask resized after its victims were in vain"),
        pytest.param(OF_PREEMPTION, 7_000_000, id="ask too large for its cleared node"),
        pytest.param(
            partial(agree, length=3 * CROWDED, backfill=1.0, shortest=MOSTLY),
            3_100_031,
            id="time alone calls for an earlier start",
        ),
        pytest.param(
            partial(OF_PREEMPTION, notices=True), 61_000_264, id="node asked about again after stops"
        ),
        pytest.param(
            partial(OF_PREEMPTION, length=CROWDED, notices=True, reclaims=True),
            3_800_112,
            id="assumed elsewhere after stops in vain",
        ),
        pytest.param(OF_DOMAINS, 74_200_011, id="first placeholder after members"),
        pytest.param(
            partial(OF_DOMAINS, play=NODE_BY_NODE, elastic=1.0),
            74_000_253,
            id="question about a gang in a turn that ends early",
        ),
        pytest.param(
            partial(agree, play=NODE_BY_NODE), 1_000_052, id="search after a wait in a turn that ends early"
        ),
        pytest.param(
            partial(
                agree, play=NODE_BY_NODE, length=CROWDED, gangs=0.0, preempting=1.0, backfill=1.0, closes=True
            ),
            700_139,
            id="search for a higher priority in a turn that ends early",
        ),
        pytest.param(
            partial(agree, play=NODE_BY_NODE, length=GANGS, gangs=0.0, backfill=1.0, maxima=0.7),
            9_500_038,
            id="backfill turned on after a try of one ask of two",
        ),
        pytest.param(
            partial(agree, length=GANGS, gangs=0.6, backfill=1.0),
            46_300_409,
            id="overdue start that gave way",
        ),
        pytest.param(OF_DOMAINS, 770_035, id="too many kinds of members for a full search"),
    ],
)
def test_core_and_oracle_agree_in_rare_worlds(decides: Callable[..., None], seed: int) -> None:
    """Core and oracle agree in worlds where their decisions once differed."""
    decides(part=range(seed, seed + 1))


def test_core_and_oracle_agree_that_a_start_stops_an_ask_in_a_full_cluster() -> None:
    """The ask is not reported to an autoscaler, as a start had stopped it before the cluster was full."""
    wanted = [
        asks(job("p", "runs", 1, 100)),
        asks(job("p", "holder", 2, 50), job("p", "long", 1, 200)),
        asks(job("q", "fills", 3, 90)),
    ]
    queues = "[{name: p, resources: {max: {vcore: 2m}}}, {name: q}]"
    script: list[Command] = [register(config(queues, properties="{backfill: easy}"))]
    script += [nodes(node("n0", vcore=4)), apps(app("p", "root.p"), app("q", "root.q"))]
    script += [one for each in wanted for one in (each, Tick())]
    assert compare([*(Step(START, one) for one in script), Step(START + 40.0, REST)]) == 3
