"""The files for the commands of the page on decisions."""

from pathlib import Path

from support.docs.pages import ROOT, Page

TRACE = ROOT / "tests" / "data" / "traces" / "cluster.swf"


def with_trace(words: list[str], folder: Path) -> list[str]:
    """The command, after a generated trace and the map of the page were written."""
    example = next(block.text for block in Page("docs/decisions.md").blocks() if block.language == "yaml")
    (folder / "map.yaml").write_text(example, encoding="utf-8")
    (folder / "jobs.swf").write_bytes(TRACE.read_bytes())
    return words
