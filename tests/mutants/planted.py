"""All defects that are planted, in the order in which they are tried."""

from mutants.of_client import CLIENT
from mutants.of_core import CORE
from mutants.of_placement import PLACEMENT
from mutants.of_server import SERVER
from mutants.of_wire import WIRE

ALL = [*CORE, *PLACEMENT, *WIRE, *SERVER, *CLIENT]
