"""Pages of figures: tables in Markdown, and sections that are written anew one by one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE = "performance.md"
TITLE = "# Performance\n"
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page, in Markdown, and the pictures that it shows, each by its file name."""

    title: str
    text: str
    pictures: Mapping[str, str] = field(default_factory=dict)


def put_section(folder: Path, section: Section) -> Path:
    """Write a section into the page of a folder, with its pictures beside it; returns the page.

    It takes the place of the section of the same title, or comes last. What stands before the first
    section, and all other sections, stay as they are. A folder or page that is missing is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in section.pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
    page = folder / PAGE
    known = page.read_text(encoding="utf-8") if page.exists() else TITLE
    page.write_text(replaced(known, section), encoding="utf-8")
    return page


def replaced(page: str, section: Section) -> str:
    """The text of a page with this section in it."""
    begin, *rest = HEADING.split(page)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    sections[section.title] = f"\n\n{section.text.strip()}\n"
    parts = [begin.strip(), *(f"## {title}\n\n{text.strip()}" for title, text in sections.items())]
    return "\n\n".join(parts) + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns after the first one are aligned to the right."""
    rules = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))


def plain_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    rules = ["---"] * len(headers)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))
