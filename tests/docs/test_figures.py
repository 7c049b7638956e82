"""The figures of the README, compared with the page on performance."""

import re

import pytest

from support.docs.pages import ROOT

ROW = re.compile(r"\| `([a-z0-9]+)` \| ([0-9,]+) \| ([0-9,]+) \| ([0-9.]+) \|")
MEASURED = re.compile(
    r"\| ([a-z0-9]+) \| asks a second \| ([0-9,]+) \([^|]*\) \| ([0-9,]+) \([^|]*\) \| ([0-9.]+) \("
)


def number(figure: str) -> float:
    """A figure without its commas."""
    return float(figure.replace(",", ""))


def measured() -> dict[str, tuple[float, ...]]:
    """The asks per second by scenario, of this server and of the older core, and their ratio."""
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    section = page.split("### Beside the older core")[1].split("###")[0]
    return {name: tuple(map(number, figures)) for name, *figures in MEASURED.findall(section)}


README = ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_has_every_scenario() -> None:
    """The README has a figure of every scenario that was measured against the older core."""
    assert {name for name, *_ in README} == measured().keys() != set()


@pytest.mark.parametrize(("scenario", "this", "older", "ratio"), README)
def test_figures_of_the_readme_are_those_of_the_page(
    scenario: str, this: str, older: str, ratio: str
) -> None:
    """The figures of the README are those of the page, rounded."""
    assert [number(figure) for figure in (this, older, ratio)] == pytest.approx(
        measured()[scenario], rel=0.01
    )
