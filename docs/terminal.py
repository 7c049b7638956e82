"""Draw docs/terminal.svg: why asks wait, and the effect of a change, as shown in a terminal.

    python docs/terminal.py            write the picture
    python docs/terminal.py --check    compare only; exit 1 where it differs

The commands call a real server with the cluster of docs/recipes.md.
"""

import argparse
import asyncio
import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from recipes import PAGE, RECIPE, cluster

from licorne_cli.commands import main as licorne
from licorne_server.telemetry.logs import set_up

PICTURE = Path(__file__).with_name("terminal.svg")
QUOTAS = "quotas.yaml"
COMMANDS = (("explain",), ("config", "plan", QUOTAS))
ROW, CHARACTER, MARGIN, BAR = 17, 7.3, 18, 30
LONGEST = 24
"""Maximum number of lines of a command's output; further lines are cut."""

STYLE = """\
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d7dde4; white-space: pre }
.window { fill: #14181d; stroke: #3d444d }
.prompt { fill: #6cb6ff; font-weight: 600 }
.more { fill: #8b949e }
.dot { fill: #3d444d }"""


async def said() -> list[tuple[str, list[str]]]:
    """Each command with the lines of its output."""
    found = []
    async with cluster() as target:
        for words in COMMANDS:
            output = await asyncio.to_thread(run, target, words)
            found.append((" ".join(("licorne", *words)), output.rstrip().splitlines()))
    return found


def run(target: str, words: tuple[str, ...]) -> str:
    """The output of a command; its file has the first recipe."""
    output = io.StringIO()
    with TemporaryDirectory() as folder, redirect_stdout(output):
        file = Path(folder) / QUOTAS
        recipe = RECIPE.search(PAGE.read_text(encoding="utf-8"))
        assert recipe is not None
        file.write_text(recipe["config"], encoding="utf-8")
        licorne([*(str(file) if word == QUOTAS else word for word in words), "--target", target])
    return output.getvalue()


def lines(commands: list[tuple[str, list[str]]]) -> Iterator[tuple[str, str]]:
    """The lines on the screen, each with its CSS class."""
    for number, (command, output) in enumerate(commands):
        if number:
            yield "", ""
        yield "prompt", f"$ {command}"
        for line in output[:LONGEST]:
            yield "", line
        if len(output) > LONGEST:
            yield "more", f"... {len(output) - LONGEST} more lines"


def draw(commands: list[tuple[str, list[str]]]) -> str:
    """The picture as SVG."""
    shown = list(lines(commands))
    width = round(max(len(line) for _, line in shown) * CHARACTER) + 2 * MARGIN
    height = BAR + len(shown) * ROW + MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>Why all waits, and what a change would do</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" class="window"/>',
        *(f'<circle cx="{18 + 16 * n}" cy="16" r="5" class="dot"/>' for n in range(3)),
    ]
    for number, (kind, line) in enumerate(shown):
        if line:
            mark = f' class="{kind}"' if kind else ""
            y = BAR + ROW * (number + 1) - 4
            parts.append(f'<text x="{MARGIN}" y="{y}" xml:space="preserve"{mark}>{escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    """Write or compare the picture; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="Draw docs/terminal.svg.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    set_up("warning")
    fresh = draw(asyncio.run(said()))
    if not check:
        PICTURE.write_text(fresh, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{PICTURE.name} is not what the server says: run make picture", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
