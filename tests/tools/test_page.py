"""The section of scenarios: what was measured where, how to do it again, tables and pictures."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from licorne_tools.bench.installation import Build
from licorne_tools.bench.markdown import machine
from licorne_tools.bench.page import Measured, labels, names, section
from licorne_tools.bench.scenarios import SCENARIOS, Wire

THIS = Build(version="1", form="compiled", python="CPython 3", optimized=True, folder="/secret", commit="abc")
OTHER = replace(THIS, form="pure")
COMMAND = "licorne bench core latency --against pure --report docs"


def runs(*rates: float) -> list[dict[str, float]]:
    """Runs that differ in their rates."""
    return [
        {"allocations_per_second": rate, "cpu_us_per_allocation": 1e6 / rate, "peak_rss_mib": 80.0}
        for rate in rates
    ]


def results() -> list[Measured]:
    """Two scenarios on both sides; in one of them the rate is that of the sender."""
    latency = [{**run, "latency_p50_ms": 2.0} for run in runs(200, 200)]
    return [
        Measured(SCENARIOS["core"], [runs(80_000, 90_000), runs(40_000, 30_000)]),
        Measured(SCENARIOS["latency"], [latency, latency]),
    ]


def part(text: str, heading: str) -> str:
    """What stands below a heading."""
    return text.partition(f"### {heading}\n")[2].partition("###")[0]


def test_figures_stand_beside_each_other_with_their_spread() -> None:
    """Both forms, and the ratios of the pairs."""
    text = section(results(), [THIS, OTHER], COMMAND).text
    rows = part(text, "Allocations a second").strip().splitlines()
    assert rows[-3:] == [
        "| Scenario | compiled | pure | ratio |",
        "| --- | ---: | ---: | ---: |",
        "| core | 85,000 (80,000 to 90,000) | 35,000 (30,000 to 40,000) | 2.50 (2.00 to 3.00) |",
    ]
    assert "| latency | 2 | 2 | 1.00 |" in part(text, "Latency, median, ms")


def test_it_says_what_was_measured_where_and_how() -> None:
    """The machine, both builds, the shapes, and the commands; no folder of the machine."""
    text = section(results(), [THIS, OTHER], COMMAND).text
    for value in machine().values():
        assert value in text
    assert f"| compiled | {THIS} |" in text
    assert f"| pure | {OTHER} |" in text
    assert "| core | 2 queues x 1 app x 5,000 asks | 10,000 | 5,000 | 2 |" in text
    assert f"```sh\nmake native\n{COMMAND}\n```" in text
    assert "/secret" not in text


def test_every_picture_is_shown() -> None:
    """Each that is wanted is an SVG with texts, and its name is in the text."""
    found = section(results(), [THIS, OTHER], COMMAND, drawn=True)
    assert set(re.findall(r"\]\((.+\.svg)\)", found.text)) == set(found.pictures)
    assert len(found.pictures) == 3
    for picture in found.pictures.values():
        texts = {text.strip() for text in ElementTree.fromstring(picture).itertext()}
        assert "core" in texts


def test_the_same_figures_give_the_same_section() -> None:
    """Neither the day nor chance is in it."""
    first, again = (section(results(), [THIS, OTHER], COMMAND, drawn=True) for _ in range(2))
    assert first == again
    assert not [picture for picture in first.pictures.values() if "date" in picture]


def test_one_server_has_figures_without_ratios() -> None:
    """Its column has the name of its form where there is no other."""
    alone = [Measured(each.scenario, each.sides[:1]) for each in results()]
    found = section(alone, [THIS], COMMAND, drawn=True)
    assert "| core | 85,000 (80,000 to 90,000) |" in found.text
    assert "| Scenario | compiled |" in found.text
    assert "| ratio |" not in found.text
    assert "### Ratios" not in found.text
    assert len(found.pictures) == 2


def test_builds_are_named_by_what_tells_them_apart() -> None:
    """The form first, then the commit, then the interpreter."""
    assert labels([THIS, OTHER]) == ["compiled", "pure"]
    assert labels([THIS, replace(THIS, commit="def")]) == ["abc", "def"]
    assert labels([THIS, replace(THIS, python="CPython 4")]) == ["CPython 3", "CPython 4"]
    assert labels([THIS, replace(THIS, commit="")]) == ["this", "other"]
    assert labels([THIS, THIS]) == ["this", "other"]


def test_scenarios_are_named_by_what_tells_them_apart() -> None:
    """By their name alone where that is enough."""
    single = SCENARIOS["core1"]
    both = [replace(single, wire=wire) for wire in Wire]
    assert names([SCENARIOS["core"], *both]) == ["core", "core1 si", "core1 session"]
