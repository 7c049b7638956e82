"""The page that benches write: sections come and are written anew, all else stays."""

from pathlib import Path

import pytest

from licorne_tools.bench.markdown import PAGE, Section, put_section, table


def test_a_page_is_made_where_there_is_none(tmp_path: Path) -> None:
    """Its folder too; the pictures are beside it."""
    section = Section(title="Growth", text="![x](x.svg)\n", pictures={"x.svg": "<svg/>"})
    page = put_section(tmp_path / "new", section)
    assert page == tmp_path / "new" / PAGE
    assert page.read_text() == "# Performance\n\n## Growth\n\n![x](x.svg)\n"
    assert (tmp_path / "new/x.svg").read_text() == "<svg/>"


def test_a_section_comes_last(tmp_path: Path) -> None:
    """What was there before stays as it is."""
    (tmp_path / PAGE).write_text("# Title\n\nWritten by hand.\n\n## One\n\n1\n\n### Part\n\n2\n")
    page = put_section(tmp_path, Section(title="Two", text="3"))
    assert page.read_text() == (
        "# Title\n\nWritten by hand.\n\n## One\n\n1\n\n### Part\n\n2\n\n## Two\n\n3\n"
    )


def test_a_section_is_written_anew_at_its_place(tmp_path: Path) -> None:
    """The one of the same title goes, with its parts."""
    for title, text in (("One", "1\n\n### Part\n\n2"), ("Two", "3"), ("One", "4"), ("One", "4")):
        put_section(tmp_path, Section(title=title, text=text))
    assert (tmp_path / PAGE).read_text() == "# Performance\n\n## One\n\n4\n\n## Two\n\n3\n"


def test_what_stands_around_a_section_stays_as_it_is(tmp_path: Path) -> None:
    """To the letter: blank lines, a second section of the same title, and one in the middle."""
    before = "# Title\n\n\nBy hand.\n## One\n1\n"
    after = "## Three\n3\n\n\n## Two\nby hand\n"
    (tmp_path / PAGE).write_text(f"{before}## Two  \n2\n\n{after}")
    put_section(tmp_path, Section(title="Two", text="4"))
    assert (tmp_path / PAGE).read_text() == f"{before}## Two\n\n4\n\n{after}"


@pytest.mark.parametrize(("begin", "end"), [("```sh", "```"), ("~~~~", "~~~~~"), ("  ```", "```")])
def test_a_comment_in_code_begins_no_section(begin: str, end: str, tmp_path: Path) -> None:
    """A section has all of the code that it shows."""
    code = f"{begin}\n## Two\n~~~ ``` no end\n## One\n{end}\n"
    (tmp_path / PAGE).write_text(f"# Title\n\n{code}\n## One\n\n{code}\n## Two\n\n2\n")
    put_section(tmp_path, Section(title="One", text="new"))
    put_section(tmp_path, Section(title="Two", text="new"))
    assert (tmp_path / PAGE).read_text() == f"# Title\n\n{code}\n## One\n\nnew\n\n## Two\n\nnew\n"


def test_files_are_exchanged_as_a_whole(tmp_path: Path) -> None:
    """Who has opened one reads all of it; nothing else is left in the folder."""
    section = Section(title="One", text="new", pictures={"x.svg": "new"})
    for name in (PAGE, "x.svg"):
        (tmp_path / name).write_text("old")
    with (tmp_path / PAGE).open() as page, (tmp_path / "x.svg").open() as picture:
        put_section(tmp_path, section)
        assert (page.read(), picture.read()) == ("old", "old")
    assert {path.name for path in tmp_path.iterdir()} == {PAGE, "x.svg"}


def test_a_table_has_its_figures_on_the_right() -> None:
    """The first column has names."""
    assert table(["Name", "Figure"], [["a", "1"], ["b", "2"]]) == (
        "| Name | Figure |\n| --- | ---: |\n| a | 1 |\n| b | 2 |"
    )
