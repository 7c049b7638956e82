"""The parts of the documentation's pages: blocks of code, links, headings and tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

_FENCE = re.compile(r"^```(?P<language>\S*)\s*$")
_MARK = re.compile(r"^<!-- not run: (?P<why>.+) -->$")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$")
_CELL = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its first line and the line of its end, numbered from 1.

    `why_not` is the reason why it is not run.
    """

    page: str
    line: int
    end: int
    language: str
    text: str
    why_not: str = ""

    def __str__(self) -> str:
        """The place of the block, in a form that editors can open."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    """One page; `name` is its path from the root of the repository."""

    name: str

    @property
    def path(self) -> Path:
        """The path of its file."""
        return ROOT / self.name

    @property
    def lines(self) -> list[str]:
        """The lines of its text."""
        return self.path.read_text(encoding="utf-8").splitlines()

    @property
    def prose(self) -> list[str]:
        """The lines of the page, where those of blocks are empty."""
        inside = False
        kept = []
        for line in self.lines:
            fence = line.startswith("```")
            kept.append("" if fence or inside else line)
            inside ^= fence
        return kept

    def blocks(self) -> list[Block]:
        """Its fenced blocks in order."""
        found = []
        lines = self.lines
        begin = -1
        language = why_not = ""
        for number, line in enumerate(lines):
            fence = _FENCE.match(line)
            if fence and begin < 0:
                begin, language = number + 1, fence["language"]
                mark = _MARK.match(lines[number - 1]) if number else None
                why_not = mark["why"] if mark else ""
            elif fence:
                text = "\n".join(lines[begin:number])
                found.append(Block(self.name, begin + 1, number + 1, language, text, why_not))
                begin = -1
        assert begin < 0, f"{self.name}:{begin}: the block does not end"
        return found

    def marks(self) -> int:
        """The number of marks for blocks that are not run."""
        return sum(line.startswith("<!-- not run") for line in self.lines)

    def links(self) -> Iterator[tuple[int, str]]:
        """Line and target of every link."""
        for number, line in enumerate(self.prose, start=1):
            for link in _LINK.finditer(line):
                yield number, link["target"]

    def anchors(self) -> set[str]:
        """The valid anchors of links to the page."""
        titles = (heading["title"] for line in self.prose if (heading := _HEADING.match(line)))
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    def table(self, title: str) -> list[list[str]]:
        """The rows of the first table below the heading of that title."""
        rows: list[list[str]] = []
        below = False
        for line in self.prose:
            heading = _HEADING.match(line)
            if heading:
                below = heading["title"] == title
            elif below and line.startswith("|"):
                rows.append([cell.strip() for cell in _CELL.split(line)[1:-1]])
            elif rows:
                break
        assert rows, f"{self.name} has no table below '{title}'"
        return rows[2:]


def pages() -> list[Page]:
    """All pages for readers."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    paths += [ROOT / folder / "README.md" for folder in ("clients", "clients/go", "core")]
    return [Page(str(path.relative_to(ROOT))) for path in paths]


def code_spans(cell: str) -> list[str]:
    """The texts between backticks."""
    return _CODE.findall(cell.replace("\\|", "|"))
