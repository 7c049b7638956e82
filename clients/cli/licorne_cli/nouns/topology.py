"""`licorne topology`: free room by topology domain, and the largest gang that could start in each now."""

import argparse
import re
from collections.abc import Mapping, Sequence

import grpc

from licorne.v1.state_pb2 import ListTopologyRequest, ListTopologyResponse, TopologyDomain
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, chosen_partition, pages, served
from licorne_cli.failures import NotFoundError
from licorne_cli.output.listing import Column, Listing, add_listing_arguments, of_kind
from licorne_cli.output.printer import print_listing
from licorne_cli.output.text import (
    DATA_FORMS,
    counted,
    human_resources,
    is_in_bytes,
    print_sentence,
    printable,
    to_plain,
)
from licorne_cli.parsing.parser import MAX_DIGITS, did_you_mean, size

EXAMPLES = (
    ("licorne topology", "all domains, with slots for the first topology gang that waits"),
    ("licorne topology --level rack --sort-by slots --reverse", "the racks with most free slots first"),
    ("licorne topology --shape vcore=8,memory=64Gi", "slots for members of that size"),
    ("licorne topology zone-a -o json", "one domain and those inside, for programs"),
)
MOST_RESOURCES = 64
CORES = re.compile(r"([0-9]{1,15})(m)|([0-9]{1,12})(?:[.]([0-9]{1,3}))?")


def shape(text: str) -> dict[str, int]:
    """The size of a member: ``vcore=1.5,memory=4Gi``, in thousandths of a core and bytes."""
    parts = [part.strip().partition("=") for part in text.split(",")]
    if len(parts) > MOST_RESOURCES or len({name for name, _, _ in parts}) < len(parts):
        raise argparse.ArgumentTypeError(f"{text}: NAME=AMOUNT was expected, each name once")
    return {name: _amount(name, amount, text) for name, _, amount in parts}


def _amount(name: str, text: str, whole: str) -> int:
    """A positive amount, in the unit of its resource."""
    if name == "vcore":
        found = CORES.fullmatch(text)
        value = 0
        if found and found[2]:
            value = int(found[1])
        elif found:
            value = int(found[3]) * 1000 + int((found[4] or "").ljust(3, "0"))
    elif is_in_bytes(name):
        value = size(text)
    else:
        value = int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0
    if not name or not value:
        raise argparse.ArgumentTypeError(f"{whole}: NAME=AMOUNT was expected, such as vcore=1.5,memory=4Gi")
    return value


def nodes(domain: TopologyDomain) -> str:
    """The nodes of a domain; ``3 of 4`` if some accept no allocations."""
    if domain.schedulable_nodes == domain.nodes:
        return f"{domain.nodes:,}"
    return f"{domain.schedulable_nodes:,} of {domain.nodes:,}"


DOMAINS = Listing[TopologyDomain](
    kind="domain",
    plural="domains",
    name="path",
    columns=(
        Column("DOMAIN", "path", head=True),
        Column("LEVEL", "level", head=True),
        Column("NODES", "", nodes, key=lambda domain: domain.nodes),
        Column("SLOTS", "slots", "{:,}".format, key=int),
        Column("MEMBERS", "members", "{:,}".format, key=int),
        Column("AVAILABLE", "available", human_resources),
        Column("CAPACITY", "capacity", human_resources, wide=True),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne topology`."""
    add = parser.add_argument
    add(
        "name",
        nargs="?",
        default="",
        type=of_kind("domain"),
        metavar="DOMAIN",
        help="only this domain and those inside, as zone-a/rack-1",
    )
    add("--level", default="", metavar="LEVEL", help="only domains of this level")
    add(
        "--shape",
        type=shape,
        default={},
        metavar="NAME=AMOUNT,…",
        help="what a member wants (default: as the first waiting topology gang, or the largest waiting ask "
        "that has room)",
    )
    add_listing_arguments(parser, DOMAINS, watch=False)
    add_connection_arguments(parser, partition=True, forms=())


def show(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the domains.

    Raises:
        NotFoundError: there are no levels, or there is no such domain.
    """
    stub = StateStub(channel)
    partition = chosen_partition(stub, args)
    answer = whole_topology(stub, args, partition)
    domains = [one for one in answer.domains if is_inside(one.path, args.name)]
    if args.name and not domains:
        meant = did_you_mean(args.name, (one.path for one in answer.domains))
        where = printable(partition)
        raise NotFoundError(f"domain {printable(args.name)} not found in partition {where}{meant}")
    if args.output in DATA_FORMS:
        beside = {"levels": to_plain(answer.levels), "shape": to_plain(answer.shape)}
        beside["unasked"] = answer.unasked
        print_listing(DOMAINS, domains, args, beside)
        return
    if not answer.levels:
        print_sentence(
            f"partition {printable(partition)} has no topology: `topology.levels` of root is not set"
        )
        return
    if args.output != "name":
        print_sentence(f"{in_one_line(answer, domains)}\n")
    print_listing(DOMAINS, domains, args)


run = served(show)


def whole_topology(stub: StateStub, args: argparse.Namespace, partition: str) -> ListTopologyResponse:
    """The topology of a partition, page by page; all pages use the shape of the first page."""
    request = ListTopologyRequest(partition=partition, level=args.level, shape=args.shape)
    whole = ListTopologyResponse()
    for page in pages(stub.ListTopology, request, args.timeout):
        if request.page_token:
            whole.domains.extend(page.domains)
        else:
            whole = page
            request.shape.update(page.shape)
    return whole


def is_inside(path: str, domain: str) -> bool:
    """True for a domain and its descendants; the empty path contains all domains."""
    return not domain or path == domain or path.startswith(f"{domain}/")


def in_one_line(answer: ListTopologyResponse, domains: Sequence[TopologyDomain]) -> str:
    """``a gang of 8 members of memory=8Gi,vcore=2 would start now in zone-a, one of 4 in zone-a/rack-1``."""
    if not answer.shape:
        return "no ask waits that could start: give the size of a member with --shape"
    best = largest(domains)
    found = [best[level] for level in answer.levels if level in best and best[level].slots]
    wanted = human_resources(answer.shape)
    if not found:
        return f"no member of {wanted} would start now"
    first, *more = found
    alone = "; by amounts alone, the RM was not asked about nodes" if answer.unasked else ""
    text = f"the largest gang of {wanted} that would start now has {counted(first.slots, 'member')}"
    places = (f"{one.slots:,} in one {_named(one)}" for one in more)
    return ", ".join((f"{text} in one {_named(first)}", *places)) + alone


def _named(domain: TopologyDomain) -> str:
    return printable(f"{domain.level} ({domain.path})")


def largest(domains: Sequence[TopologyDomain]) -> Mapping[str, TopologyDomain]:
    """For each level, the first domain with the most slots."""
    best: dict[str, TopologyDomain] = {}
    for domain in domains:
        if domain.level not in best or domain.slots > best[domain.level].slots:
            best[domain.level] = domain
    return best
