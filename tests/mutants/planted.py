"""All defects that are planted, in the order in which they are tried."""

from mutants.of_bench import BENCH
from mutants.of_books import BOOKS
from mutants.of_caps import CAPS
from mutants.of_checks import CHECKS
from mutants.of_client import CLIENT
from mutants.of_commands import COMMANDS
from mutants.of_core import CORE
from mutants.of_doors import DOORS
from mutants.of_gangs import GANGS
from mutants.of_intake import INTAKE
from mutants.of_laws import LAWS
from mutants.of_logs import LOGS
from mutants.of_maxima import MAXIMA
from mutants.of_metrics import METRICS
from mutants.of_museum import MUSEUM
from mutants.of_page import PAGE
from mutants.of_passes import PASSES
from mutants.of_placement import PLACEMENT
from mutants.of_plans import PLANS
from mutants.of_preemption import PREEMPTION
from mutants.of_server import SERVER
from mutants.of_steps import STEPS
from mutants.of_traces import TRACES
from mutants.of_waiting import WAITING
from mutants.of_wire import WIRE

ALL = [
    *CORE,
    *BOOKS,
    *PLACEMENT,
    *WAITING,
    *PASSES,
    *STEPS,
    *CHECKS,
    *GANGS,
    *LAWS,
    *PREEMPTION,
    *MAXIMA,
    *PLANS,
    *MUSEUM,
    *WIRE,
    *INTAKE,
    *SERVER,
    *DOORS,
    *PAGE,
    *CAPS,
    *LOGS,
    *METRICS,
    *TRACES,
    *BENCH,
    *CLIENT,
    *COMMANDS,
]
