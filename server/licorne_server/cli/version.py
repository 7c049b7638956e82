"""`licorne version`: what would run here."""

import argparse
from dataclasses import asdict

from licorne_server.build_info import build_info
from licorne_server.cli.output import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne version`."""
    parser.add_argument("-o", "--output", default="text", choices=("text", "json"))


def run(args: argparse.Namespace) -> int:
    """Print the version, the form and the interpreter; 0."""
    info = build_info()
    if args.output == "json":
        print_json(asdict(info))
    else:
        print(info)
    return 0
