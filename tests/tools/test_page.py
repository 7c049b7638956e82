"""The page of benches, and its section of scenarios: machine, commands, tables and pictures."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from licorne_tools.bench.installation import Build
from licorne_tools.bench.page import (
    PAGE,
    Measured,
    Section,
    labels,
    machine,
    names,
    put_section,
    section,
    table,
)
from licorne_tools.bench.scenarios import SCENARIOS, Wire

THIS = Build(version="1", form="compiled", python="CPython 3", optimized=True, folder="/secret", commit="abc")
OTHER = replace(THIS, form="pure")
COMMAND = "licorne bench core latency --against pure --report docs"


def runs(*rates: float) -> list[dict[str, float]]:
    """Runs with different rates."""
    return [
        {"allocations_per_second": rate, "cpu_us_per_allocation": 1e6 / rate, "peak_rss_mib": 80.0}
        for rate in rates
    ]


def results() -> list[Measured]:
    """Two scenarios on both sides; in one of them the sender limits the rate."""
    latency = [{**run, "latency_p50_ms": 2.0} for run in runs(200, 200)]
    return [
        Measured(SCENARIOS["core"], [runs(80_000, 90_000), runs(40_000, 30_000)]),
        Measured(SCENARIOS["latency"], [latency, latency]),
    ]


def part(text: str, heading: str) -> str:
    """The text below a heading."""
    return text.partition(f"### {heading}\n")[2].partition("###")[0]


def test_figures_are_compared_with_their_spread() -> None:
    """The table has both forms, and the ratios of the pairs."""
    text = section(results(), [THIS, OTHER], COMMAND).text
    rows = part(text, "Allocations a second").strip().splitlines()
    assert rows[-3:] == [
        "| Scenario | compiled | pure | ratio |",
        "| --- | ---: | ---: | ---: |",
        "| core | 85,000 (80,000 to 90,000) | 35,000 (30,000 to 40,000) | 2.50 (2.00 to 3.00) |",
    ]
    assert "| latency | 2 | 2 | 1.00 |" in part(text, "Latency, median, ms")


def test_the_section_has_machine_builds_and_commands() -> None:
    """The machine, both builds, the shapes, and the commands are listed, without any local folder."""
    text = section(results(), [THIS, OTHER], COMMAND).text
    for value in machine().values():
        assert value in text
    assert f"| compiled | {THIS} |" in text
    assert f"| pure | {OTHER} |" in text
    assert "| core | 2 queues x 1 app x 5,000 asks | 10,000 | 5,000 | 2 |" in text
    assert f"```sh\nmake native\n{COMMAND}\n```" in text
    assert "/secret" not in text


def test_every_picture_is_included() -> None:
    """Each picture is an SVG with texts, and its name is in the section."""
    found = section(results(), [THIS, OTHER], COMMAND, drawn=True)
    assert set(re.findall(r"\]\((.+\.svg)\)", found.text)) == set(found.pictures)
    assert len(found.pictures) == 3
    for picture in found.pictures.values():
        texts = {text.strip() for text in ElementTree.fromstring(picture).itertext()}
        assert "core" in texts


@pytest.mark.slow
def test_equal_figures_give_an_equal_section() -> None:
    """Neither the date nor chance affects the section."""
    first, again = (section(results(), [THIS, OTHER], COMMAND, drawn=True) for _ in range(2))
    assert first == again
    assert not [picture for picture in first.pictures.values() if "date" in picture]


def test_one_server_has_figures_without_ratios() -> None:
    """The column of a single server has the name of its form."""
    alone = [Measured(each.scenario, each.sides[:1]) for each in results()]
    found = section(alone, [THIS], COMMAND, drawn=True)
    assert "| core | 85,000 (80,000 to 90,000) |" in found.text
    assert "| Scenario | compiled |" in found.text
    assert "| ratio |" not in found.text
    assert "### Ratios" not in found.text
    assert len(found.pictures) == 2


def test_builds_have_the_shortest_distinct_names() -> None:
    """A build is named by its form, then the commit, then the interpreter."""
    assert labels([THIS, OTHER]) == ["compiled", "pure"]
    assert labels([THIS, replace(THIS, commit="def")]) == ["abc", "def"]
    assert labels([THIS, replace(THIS, python="CPython 4")]) == ["CPython 3", "CPython 4"]
    assert labels([THIS, replace(THIS, commit="")]) == ["this", "other"]
    assert labels([THIS, THIS]) == ["this", "other"]


def test_scenarios_have_the_shortest_distinct_names() -> None:
    """A scenario is named by its name alone if that is enough."""
    single = SCENARIOS["core1"]
    both = [replace(single, wire=wire) for wire in Wire]
    assert names([SCENARIOS["core"], *both]) == ["core", "core1 si", "core1 session"]


def test_a_missing_page_is_created(tmp_path: Path) -> None:
    """The folder of a new page is created too, and the pictures are beside the page."""
    section = Section(title="Growth", text="![x](x.svg)\n", pictures={"x.svg": "<svg/>"})
    page = put_section(tmp_path / "new", section)
    assert page == tmp_path / "new" / PAGE
    assert page.read_text() == "# Performance\n\n## Growth\n\n![x](x.svg)\n"
    assert (tmp_path / "new/x.svg").read_text() == "<svg/>"


def test_a_new_section_is_appended(tmp_path: Path) -> None:
    """The earlier text is unchanged."""
    (tmp_path / PAGE).write_text("# Title\n\nWritten by hand.\n\n## One\n\n1\n\n### Part\n\n2\n")
    page = put_section(tmp_path, Section(title="Two", text="3"))
    assert page.read_text() == (
        "# Title\n\nWritten by hand.\n\n## One\n\n1\n\n### Part\n\n2\n\n## Two\n\n3\n"
    )


def test_an_existing_section_is_replaced(tmp_path: Path) -> None:
    """The section of the same title is replaced, with its parts."""
    for title, text in (("One", "1\n\n### Part\n\n2"), ("Two", "3"), ("One", "4"), ("One", "4")):
        put_section(tmp_path, Section(title=title, text=text))
    assert (tmp_path / PAGE).read_text() == "# Performance\n\n## One\n\n4\n\n## Two\n\n3\n"


def test_text_around_a_section_is_unchanged(tmp_path: Path) -> None:
    """Blank lines, a second section of the same title, and one in the middle stay unchanged."""
    before = "# Title\n\n\nBy hand.\n## One\n1\n"
    after = "## Three\n3\n\n\n## Two\nby hand\n"
    (tmp_path / PAGE).write_text(f"{before}## Two  \n2\n\n{after}")
    put_section(tmp_path, Section(title="Two", text="4"))
    assert (tmp_path / PAGE).read_text() == f"{before}## Two\n\n4\n\n{after}"


@pytest.mark.parametrize(("begin", "end"), [("```sh", "```"), ("~~~~", "~~~~~"), ("  ```", "```")])
def test_a_comment_in_code_begins_no_section(begin: str, end: str, tmp_path: Path) -> None:
    """A section includes the whole of its code."""
    code = f"{begin}\n## Two\n~~~ ``` no end\n## One\n{end}\n"
    (tmp_path / PAGE).write_text(f"# Title\n\n{code}\n## One\n\n{code}\n## Two\n\n2\n")
    put_section(tmp_path, Section(title="One", text="new"))
    put_section(tmp_path, Section(title="Two", text="new"))
    assert (tmp_path / PAGE).read_text() == f"# Title\n\n{code}\n## One\n\nnew\n\n## Two\n\nnew\n"


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader that has opened a file reads all of it, and nothing else is left in the folder."""
    section = Section(title="One", text="new", pictures={"x.svg": "new"})
    for name in (PAGE, "x.svg"):
        (tmp_path / name).write_text("old")
    with (tmp_path / PAGE).open() as page, (tmp_path / "x.svg").open() as picture:
        put_section(tmp_path, section)
        assert (page.read(), picture.read()) == ("old", "old")
    assert {path.name for path in tmp_path.iterdir()} == {PAGE, "x.svg"}


def test_figures_are_aligned_on_the_right() -> None:
    """All columns but the first, which has names, are aligned on the right."""
    assert table(["Name", "Figure"], [["a", "1"], ["b", "2"]]) == (
        "| Name | Figure |\n| --- | ---: |\n| a | 1 |\n| b | 2 |"
    )
