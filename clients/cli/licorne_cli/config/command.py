"""`licorne config ACTION`: the table of its actions, on the configurations of RMs."""

import argparse

from licorne_cli.config.force import APPLY, ROLLBACK
from licorne_cli.config.plan import PLAN
from licorne_cli.config.reading import DIFF, GET, HISTORY, VALIDATE
from licorne_cli.parsing.parser import Command

ACTIONS = {
    "get": (GET, "print the configuration that an RM runs, or an earlier one"),
    "validate": (VALIDATE, "have the server check a file; nothing is changed"),
    "diff": (DIFF, "compare a file with the configuration that an RM runs"),
    "plan": (PLAN, "say what would happen if a file were put into force now"),
    "apply": (APPLY, "put a file into force for an RM"),
    "history": (HISTORY, "list the configurations that an RM had"),
    "rollback": (ROLLBACK, "put an earlier configuration of an RM into force"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (action, text) in ACTIONS.items():
        action.add_to(actions.add_parser(name, help=text, description=text))


CONFIG = Command(
    (add_arguments,),
    lambda args: ACTIONS[args.action][0].run(args),
    (
        ("licorne config get > queues.yaml", "what is in force, to edit it"),
        ("licorne config plan queues.yaml", "what the file would change for whom"),
        ("licorne config apply queues.yaml", "put it into force"),
        ("licorne config rollback", "and back"),
    ),
)
