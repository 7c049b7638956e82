"""Pictures of figures: all names and figures are readable, and nothing is cut."""

import re
from xml.etree import ElementTree

from licorne_tools.bench.pictures import by_scenario, pair_ratios
from licorne_tools.bench.report import Spread

NAMES = ["core", "shim", "a scenario with a long name"]


def texts(picture: str) -> list[str]:
    """The texts of a picture, as texts and not as outlines."""
    root = ElementTree.fromstring(picture)
    return [found.strip() for found in root.itertext() if found.strip()]


def test_a_picture_has_names_unit_and_legend() -> None:
    """Figures are beside their points, with all names, the unit, and a legend of the colours."""
    series = {
        side: {name: Spread(value, value * 1.1, value * 1.2) for name in NAMES}
        for side, value in (("compiled", 12.0), ("pure", 400.0))
    }
    shown = texts(by_scenario("CPU, µs", NAMES, series))
    assert {*NAMES, "compiled", "pure"} <= {*shown}
    assert (shown.count("13.2"), shown.count("440")) == (3, 3)
    assert any(text.startswith("CPU, µs (logarithmic") for text in shown)


def test_pairs_are_rings_around_their_median() -> None:
    """A scenario without a ratio has no point, and keeps its row."""
    series = {"rate": {"core": [1.5, 2.0, 1.75], "shim": [1.25]}, "cost": {"core": [0.5]}}
    shown = texts(pair_ratios("compiled / pure", NAMES, series))
    assert {*NAMES, "rate", "cost"} <= {*shown}
    # In addition to the figures of points there are those of the axis.
    assert [shown.count(figure) for figure in ("1.75", "1.25")] == [1, 1]


def test_the_height_of_a_picture_follows_its_rows() -> None:
    """Rows are not compressed if there are many."""
    one, many = (
        by_scenario("rate", names, {"x": dict.fromkeys(names, Spread(1.0, 2.0, 3.0))})
        for names in (["a"], [f"scenario {number}" for number in range(20)])
    )
    heights = [float(re.findall(r'height="([\d.]+)pt"', picture)[0]) for picture in (one, many)]
    assert heights[1] > 4 * heights[0]
