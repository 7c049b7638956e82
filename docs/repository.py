"""MkDocs hooks that add pages and files outside docs/ to the site.

Pages link to files outside docs/ with relative paths, as a forge expects: README.md, the READMEs of clients
and core, .proto files. The site has each linked file, and README.md as its first page.
"""

import re
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?=[)#])")
STEP = re.compile(r"(?P<sender>\w+)->>(?P<receiver>\w+): (?P<text>.+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Convert sequence diagrams to lists, because browsers would need Mermaid from another site."""
    fence = {"name": "mermaid", "class": "sequence", "format": sequence}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, directly or through other added files."""
    waiting = ["README.md", *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    known = set(waiting)
    while waiting:
        here = waiting.pop()
        if not here.startswith("docs/"):
            files.append(File.generated(config, address(here), abs_src_path=str(ROOT / here)))
        if here.endswith(".md"):
            text = (ROOT / here).read_text("utf-8")
            found = {normpath(join(dirname(here), link["path"])) for link in LINK.finditer(text)}
            new = {path for path in found - known if (ROOT / path).is_file() and not path.startswith("docs/")}
            known |= new
            waiting += new
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert links to those of the site."""
    source = page.file.abs_src_path
    assert source is not None
    here = Path(source).relative_to(ROOT).as_posix()

    def moved(link: re.Match[str]) -> str:
        path = normpath(join(dirname(here), link["path"]))
        if not (ROOT / path).is_file():
            return link["path"]  # a dead link, which MkDocs reports
        return relpath(address(path), dirname(address(here)) or ".")

    return LINK.sub(moved, markdown)


def address(path: str) -> str:
    """The path in the site of a file of the repository."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def sequence(source: str, *_: Any, **__: Any) -> str:
    """Convert a sequence diagram to a list in HTML."""
    names = dict(re.findall(r"participant (\w+) as (\w+)", source))
    items = []
    for line in map(str.strip, source.splitlines()):
        if step := STEP.match(line):
            sender, receiver = (names.get(step[side], step[side]) for side in ("sender", "receiver"))
            items.append(f"<strong>{sender} → {receiver}</strong> {escape(step['text'])}")
        elif line.startswith("Note over"):
            items.append(f"<em>{escape(line.partition(': ')[2])}</em>")
    return f'<ol class="sequence">{"".join(f"<li>{item}</li>" for item in items)}</ol>'
