"""The figures of the README, compared with the page on performance."""

import re

import pytest

from support.docs.pages import ROOT

ROW = re.compile(r"\| `([a-z0-9 ]+)` \| ([0-9,]+) \| ([0-9,]+) \|")
MEASURED = re.compile(r"\| ([a-z0-9 ]+) \| ([0-9,]+) \([^|]*\) \| ([0-9,]+) \([^|]*\) \|")


def rounded(figure: str) -> float:
    """A figure with three digits."""
    return float(f"{float(figure.replace(',', '')):.3g}")


def measured() -> dict[str, tuple[float, float]]:
    """Allocations per second by scenario, compiled and pure."""
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    section = page.split("### Allocations a second")[1].split("###")[0]
    return {name: (rounded(a), rounded(b)) for name, a, b in MEASURED.findall(section)}


README = ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_has_figures() -> None:
    """The README has figures of asks in batches and one by one."""
    assert {"shim", "core1 session"} <= {name for name, _, _ in README}


@pytest.mark.parametrize(("scenario", "compiled", "pure"), README)
def test_figures_agree(scenario: str, compiled: str, pure: str) -> None:
    """The figures of both forms agree to three digits."""
    assert (rounded(compiled), rounded(pure)) == measured()[scenario]
