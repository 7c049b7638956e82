"""`licorne config ACTION`: the configurations of RMs. Each action has a module of its own."""

import argparse
from importlib import import_module
from typing import Any

from licorne_cli.parsing.parser import show_examples

EXAMPLES = (
    ("licorne config get > queues.yaml", "what is in force, to edit it"),
    ("licorne config plan queues.yaml", "what the file would change for whom"),
    ("licorne config apply queues.yaml", "put it into force"),
    ("licorne config rollback", "and back"),
)

ACTIONS = {
    "get": "print the configuration that an RM runs, or an earlier one",
    "validate": "have the server check a file; nothing is changed",
    "diff": "compare a file with the configuration that an RM runs",
    "plan": "say what would happen if a file were put into force now",
    "apply": "put a file into force for an RM",
    "history": "list the configurations that an RM had",
    "rollback": "put an earlier configuration of an RM into force",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions of `licorne config`, each with its arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        module = _module(name)
        action = actions.add_parser(name, help=text, description=text)
        module.add_arguments(action)
        show_examples(action, module.EXAMPLES)


def run(args: argparse.Namespace) -> int:
    """Carry out the action; its exit code."""
    code: int = _module(args.action).run(args)
    return code


def _module(action: str) -> Any:
    return import_module(f"licorne_cli.config.{action}")
