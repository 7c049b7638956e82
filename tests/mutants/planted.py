"""All planted defects, in the order in which they are tried."""

from extensions.ageing.mutants import AGEING
from extensions.autoscaler.mutants import AUTOSCALER
from extensions.back_off.mutants import BACK_OFF
from extensions.backfill.mutants import BACKFILL
from extensions.budgets.mutants import BUDGETS
from extensions.drains.mutants import DRAINS
from extensions.elastic.mutants import ELASTIC
from extensions.fair_memory.mutants import FAIR_MEMORY
from extensions.holds.mutants import HOLDS
from extensions.hours.mutants import OF_HOURS
from extensions.notice.mutants import NOTICES
from extensions.opening_hours.mutants import OPENING_HOURS
from extensions.queue_stops.mutants import QUEUE_STOPS
from extensions.quota_change.mutants import QUOTA_CHANGE
from extensions.state_aware.mutants import STATE_AWARE
from extensions.stops.mutants import STOPS
from extensions.topology.mutants import TOPOLOGY
from mutants.of_client import CLIENT
from mutants.of_deciding import DECIDING
from mutants.of_etcd import ETCD
from mutants.of_gangs import GANGS
from mutants.of_isolation import ISOLATION
from mutants.of_kubernetes import KUBERNETES
from mutants.of_members import MEMBERS
from mutants.of_passing import PASSING
from mutants.of_plans import PLANS
from mutants.of_preemption import PREEMPTION
from mutants.of_security import SECURITY
from mutants.of_serving import SERVING
from mutants.of_simulation import SIMULATION
from mutants.of_wire import WIRE
from standard.predicates.mutants import PREDICATES

ALL = (
    *DECIDING,
    *PREDICATES,
    *GANGS,
    *TOPOLOGY,
    *ELASTIC,
    *PREEMPTION,
    *PLANS,
    *ISOLATION,
    *WIRE,
    *SERVING,
    *SECURITY,
    *ETCD,
    *KUBERNETES,
    *PASSING,
    *CLIENT,
    *MEMBERS,
    *BUDGETS,
    *DRAINS,
    *HOLDS,
    *SIMULATION,
    *AGEING,
    *AUTOSCALER,
    *NOTICES,
    *QUOTA_CHANGE,
    *STATE_AWARE,
    *OF_HOURS,
    *FAIR_MEMORY,
    *BACKFILL,
    *OPENING_HOURS,
    *BACK_OFF,
    *STOPS,
    *QUEUE_STOPS,
)
