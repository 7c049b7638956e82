"""Write docs/configuration-reference.md from the keys that the parser of configurations knows.

python docs/reference.py            write the page
python docs/reference.py --check    compare only; exit 1 where it differs
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from licorne_core.config import extra, keys, properties
from licorne_core.config.kinds import Key, Section

PAGE = Path(__file__).with_name("configuration-reference.md")

INTRO = """\
# Configuration reference

All keys of a configuration. `make reference` writes this page from the source.
[Configuration](configuration.md) is the guide, with an example, the rules between keys,
[amounts](configuration.md#amounts) and [access lists](configuration.md#access-lists).

Keys are lower-case. An unknown key is an error, which suggests a similar key.
A repeated key is an error too.
An absent or null key has its default; without a default nothing is set.
A key that is **checked only** is read, validated and shown, and does nothing else.
*Spec* is the section of the specification, as cited in the source.
"""

QUEUES = """\
Keys of `partitions[].queues[]`, and of `queues[]` of each queue.
A queue with `queues` is a parent, any other queue a leaf."""

RULES = """\
Keys of `partitions[].placementrules[]`.
The guide has the [kinds](configuration.md#kinds-of-placement-rules)."""

SECTIONS = (
    ("Document", "Keys of the document.", keys.DOCUMENT),
    ("Partition", "Keys of `partitions[]`.", keys.PARTITION),
    ("Queue", QUEUES, keys.QUEUE),
    ("Limit", "Keys of `partitions[].limits[]`, and of `limits[]` of a queue.", keys.LIMIT),
    ("Placement rule", RULES, keys.RULE),
)

PROPERTIES = """
## Queue properties

Keys of `properties` of a queue, and of `childtemplate.properties`. Values are texts.
An invalid value is ignored, with a warning. Words are read in any case of letters.
Managed queues, those in the configuration, inherit their parent's properties.
[Dynamic queues](configuration.md#queue) have those of the template only.
Durations are written as `30s`, `1h5m` or `1.5h`.
"""

EXTRA = """
## Extra configuration

Keys of `extraConfig` of a registration or an update, a map of texts.
An invalid value is ignored.
[The guide](configuration.md#extra-configuration) describes when it comes into force.
"""


def flattened(section: Section, before: str = "") -> Iterator[tuple[str, Key]]:
    """Keys of a mapping by path, with nested mappings in place."""
    for key in section.values():
        yield before + key.name, key
        if key.inside is not None:
            yield from flattened(key.inside, f"{before}{key.name}.")


def value(key: Key) -> str:
    """Values of a key: its words, or its kind and conditions."""
    if key.choices:
        return ", ".join(f"`{word}`" for word in key.choices)
    return f"{key.kind.value}: {key.allowed}" if key.allowed else key.kind.value


def row(path: str, key: Key, *more: str) -> str:
    """A line of a table."""
    what = key.what if key.works else f"**checked only**: {key.what}"
    default = f"`{key.default}`" if key.default else ""
    cells = (f"`{path}`", value(key), default, *more, what.replace("|", "\\|"), key.spec)
    return f"| {' | '.join(cells)} |"


def table(rows: Iterator[str], *more: str) -> list[str]:
    """A table with its head."""
    head = ("Key", "Value", "Default", *more, "Effect", "Spec")
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows]


def page() -> str:
    """The whole page."""
    lines = [INTRO.rstrip()]
    for title, where, section in SECTIONS:
        lines += ["", f"## {title}", "", where, ""]
        lines += table(row(path, key) for path, key in flattened(section))
    rows = (row(key.name, key, key.where) for key in properties.PROPERTIES.values())
    lines += [PROPERTIES.rstrip(), "", *table(rows, "Where")]
    lines += [EXTRA.rstrip(), "", *table(row(key.name, key) for key in extra.EXTRA.values())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description="Write the reference of configurations.")
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif page() != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE.name} is not what the source has: run make reference")


if __name__ == "__main__":
    main()
