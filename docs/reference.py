"""Write the reference pages of configurations and settings, from the keys that the parsers accept.

python docs/reference.py            write the pages
python docs/reference.py --check    compare only; exit 1 if one differs
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from licorne_core.config import extra, keys, properties
from licorne_core.config.kinds import Key, Section
from licorne_server.commands.serve_options import FLAGS
from licorne_server.commands.settings import default_of, tables

FOLDER = Path(__file__).parent

INTRO = """\
# Configuration reference

All keys of a configuration. `make reference` writes this page from the source.
[Configuration](configuration.md) is the guide, with an example, the rules between keys,
[amounts](configuration.md#amounts) and [access lists](configuration.md#access-lists).

Keys are lower-case. An unknown or repeated key is an error. An absent or null key has its default.
A key that is **checked only** is read, validated and shown, and does nothing else.
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
An invalid value is ignored, with a warning. Words may be in any case of letters.
Configured queues inherit their parent's properties, [dynamic queues](configuration.md#queue) only those of
the template. Durations have the form `30s`, `1h5m` or `1.5h`.
"""

EXTRA = """
## Extra configuration

Keys of `extraConfig`, a map of texts in [a registration or an update](configuration.md#extra-configuration).
An invalid value is ignored.
"""


def flattened(section: Section, before: str = "") -> Iterator[tuple[str, Key]]:
    """The keys of a mapping with their paths, each followed by the keys of its nested mapping."""
    for key in section.values():
        yield before + key.name, key
        if key.inside is not None:
            yield from flattened(key.inside, f"{before}{key.name}.")


def value(key: Key) -> str:
    """The accepted values of a key: the choices, or the type and its conditions."""
    if key.choices:
        return ", ".join(f"`{word}`" for word in key.choices)
    return f"{key.kind.value}: {key.allowed}" if key.allowed else key.kind.value


def row(path: str, key: Key, *more: str) -> str:
    """A row of a table."""
    what = key.what if key.works else f"**checked only**: {key.what}"
    default = f"`{key.default}`" if key.default else ""
    cells = (f"`{path}`", value(key), default, *more, what.replace("|", "\\|"))
    return f"| {' | '.join(cells)} |"


def table(rows: Iterator[str], *more: str) -> list[str]:
    """A table with its header."""
    head = ("Key", "Value", "Default", *more, "Effect")
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows]


def configurations() -> str:
    """The page about configurations."""
    lines = [INTRO.rstrip()]
    for title, where, section in SECTIONS:
        lines += ["", f"## {title}", "", where, ""]
        lines += table(row(path, key) for path, key in flattened(section))
    rows = (row(key.name, key, key.where) for key in properties.PROPERTIES.values())
    lines += [PROPERTIES.rstrip(), "", *table(rows, "Where")]
    lines += [EXTRA.rstrip(), "", *table(row(key.name, key) for key in extra.EXTRA.values())]
    return "\n".join(lines) + "\n"


SETTINGS = """\
# Settings reference

All settings of `licorne serve`. `make reference` writes this page from the source.
[Settings](serving.md#settings) describes how file, variables and flags go together.
"""

SERVING, BOUNDS = "serving.md", "bounds.md"
LINKS = {
    "server": {
        "addresses and TLS": "rest.md#addresses-and-tls",
        "TLS and identities": "tls.md",
        "all cores of one host": f"{SERVING}#all-cores-of-one-host",
        "the default file": "changing-configuration.md#the-default-file",
        "budgets": "budgets.md",
        "after a restart": "changing-configuration.md#after-a-restart",
        "the journal": "journal.md",
        "the transport": "installing.md#the-transport",
        "stalls": f"{SERVING}#stalls",
    },
    "access": {"TLS and identities": "tls.md", "names of the server": "rest.md#names-of-the-server"},
    "coordination": {"high availability": "high-availability.md"},
    "bounds": {
        "what one peer may have": f"{BOUNDS}#what-one-peer-may-have",
        "how much an RM may have": f"{BOUNDS}#how-much-may-an-rm-have",
        "when memory is short": f"{BOUNDS}#when-memory-is-short",
        "disconnected RMs": f"{BOUNDS}#disconnected-rms",
        "how many events are kept": "events.md#how-many-events-are-kept",
        "plans": "plans.md",
    },
    "scheduling": {
        "reserved nodes": "operating.md#reserved-nodes",
        "an ask that fails at its RM": "operating.md#an-ask-that-fails-at-its-rm",
    },
    "telemetry": {
        "logs": "logs.md",
        "tracing": "tracing.md",
        "names with the queue in them": "metrics.md#names-with-the-queue-in-them",
    },
}
"""The page that explains the settings of each table."""


def settings() -> str:
    """The page about settings."""
    flags = {key.path: flag for flag, key in FLAGS.items()}
    lines = [SETTINGS.rstrip()]
    for table, kind in tables.TABLES.items():
        more = ", ".join(f"[{text}]({target})" for text, target in LINKS[table].items())
        lines += ["", f"## {table}", "", f"{kind.__doc__} See {more}.", ""]
        lines += ["| Key | Flag | Value | Default | Meaning |", "|---|---|---|---|---|"]
        for key in tables.KEYS.values():
            if key.table == table:
                flag = f"`{flags[key.path]}`" if key.path in flags else ""
                cells = (f"`{key.name}`", flag, key.kind.form, f"`{default_of(key)}`", key.what)
                lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


PAGES = {"configuration-reference.md": configurations, "settings-reference.md": settings}


def main() -> None:
    """Write or compare the pages."""
    parser = argparse.ArgumentParser(description="Write the references of configurations and of settings.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    for name, page in PAGES.items():
        if not check:
            (FOLDER / name).write_text(page(), encoding="utf-8")
        elif page() != (FOLDER / name).read_text(encoding="utf-8"):
            sys.exit(f"{name} is not what the source has: run make reference")


if __name__ == "__main__":
    main()
