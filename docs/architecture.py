"""Draw docs/architecture.svg: the folders of server and core, and their imports.

    python docs/architecture.py            write the picture
    python docs/architecture.py --check    compare only; exit 1 where it differs

A *room* is a top-level folder or module of a package. An arrow stands for the imports between two rooms: it
is thicker with more imports, and red if it points upward.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("architecture.svg")

SERVER = (
    ("lab", "testing"),
    ("commands",),
    ("assembly",),
    ("extensions",),
    ("services", "http"),
    ("reads",),
    ("rms",),
    ("store",),
    ("transport",),
    ("security",),
    ("engine",),
    ("telemetry",),
    ("process",),
    ("wire",),
)
CORE = (
    ("scheduler",),
    ("whatif",),
    ("extensions",),
    ("standard",),
    ("handlers",),
    ("views",),
    ("partitions",),
    ("ledger",),
    ("points",),
    ("scheduling",),
    ("model",),
    ("messages",),
    ("config",),
    ("values",),
    ("features",),
)
"""Rooms from top to bottom, in the layers that `lint-imports` checks."""

WIDTH, ROW, BOX, HEIGHT, TOP = 480, 58, 118, 30, 64

STYLE = """\
text { font: 13px "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; text-anchor: middle }
.title { font-size: 15px; font-weight: 600 }
.room { fill: #ffffff; stroke: #656d76 }
.down { stroke: #54aeff; fill: none; stroke-opacity: 0.55 }
.up { stroke: #cf222e; fill: none; stroke-opacity: 0.7 }
.ground { fill: #f6f8fa }
"""


@dataclass(frozen=True)
class Block:
    """One package in the picture: its title and folder, its rows of rooms, and the left edge in pixels."""

    package: str
    title: str
    rows: tuple[tuple[str, ...], ...]
    left: int

    def places(self) -> dict[str, tuple[int, int]]:
        """The middle of each room, in pixels."""
        return {
            room: (self.left + WIDTH * (2 * i + 1) // (2 * len(row)), TOP + ROW * number)
            for number, row in enumerate(self.rows)
            for i, room in enumerate(row)
        }


BLOCKS = (
    Block("licorne_server", "server/licorne_server", SERVER, 0),
    Block("licorne_core", "core/licorne_core", CORE, WIDTH + 20),
)


def imported(tree: ast.Module, package: str) -> Iterator[str]:
    """The rooms of the package that a module imports, one for each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from _room_of(node.module, package)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _room_of(alias.name, package)


def _room_of(module: str, package: str) -> Iterator[str]:
    if module.startswith(f"{package}."):
        yield module.split(".")[1]


def imports(block: Block) -> Counter[tuple[str, str]]:
    """Number of imports between two rooms of a package, by importing and imported room."""
    folder = ROOT / block.title
    places = block.places()
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).with_suffix("").parts[0]
        assert room in places or room.startswith("__"), f"{block.package}.{room} has no place in the picture"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.update(
            (room, other)
            for other in imported(tree, block.package)
            if room in places and other in places and other != room
        )
    return found


def drawn(block: Block) -> Iterator[str]:
    """The lines of SVG for one package."""
    places = block.places()
    bottom = TOP + ROW * len(block.rows)
    yield f'<rect class="ground" x="{block.left}" y="0" width="{WIDTH}" height="{bottom}" rx="8"/>'
    yield f'<text class="title" x="{block.left + WIDTH // 2}" y="26">{block.title}</text>'
    for (room, other), count in sorted(imports(block).items()):
        (x1, y1), (x2, y2) = places[room], places[other]
        kind = "down" if y2 >= y1 else "up"
        bend = 0 if abs(y2 - y1) <= ROW else 60 + (y2 - y1) // 6
        middle = f"{(x1 + x2) // 2 + (bend if x2 >= x1 else -bend)} {(y1 + y2) // 2}"
        width = min(6.0, 0.8 + count / 16)
        yield f'<path class="{kind}" stroke-width="{width:.1f}" d="M{x1} {y1} Q{middle} {x2} {y2}"/>'
    for room, (x, y) in places.items():
        left, top = x - BOX // 2, y - HEIGHT // 2
        yield f'<rect class="room" x="{left}" y="{top}" width="{BOX}" height="{HEIGHT}" rx="5"/>'
        yield f'<text x="{x}" y="{y + 5}">{room}</text>'


def picture() -> str:
    """The picture as SVG."""
    height = TOP + ROW * max(len(block.rows) for block in BLOCKS)
    size = f'width="{2 * WIDTH + 20}" height="{height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">']
    lines.append(f"<title>Rooms of server and core</title><style>{STYLE}</style>")
    for block in BLOCKS:
        lines.extend(drawn(block))
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    """Write or compare the picture; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="draw docs/architecture.svg")
    parser.add_argument("--check", action="store_true", help="compare only")
    made = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(made, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != made:
        sys.stderr.write("docs/architecture.svg is not what the imports are: make picture\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
