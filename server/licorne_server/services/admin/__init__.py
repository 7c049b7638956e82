"""`licorne.v1.Admin`: the calls by which operators change the core's state.

Each subject has a module, with a class that returns its methods by name. The calls of an extension are in its
folder (`extensions/*/admin.py`). Methods that change state are wrapped by `Rights`, which admits operators
and writes a line to the audit log.
"""

import grpc

from licorne_core.views import Views
from licorne_server.engine.copies import Copies
from licorne_server.engine.engine import Engine
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.sources import Dumps
from licorne_server.rms.budgets.members import MemberBudgets
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import Rms
from licorne_server.rms.reloading import Changes
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.security.access import Access
from licorne_server.services.admin.acts import Acts, Rights
from licorne_server.services.admin.configuration import ConfigurationMethods
from licorne_server.services.admin.members import MemberMethods
from licorne_server.services.admin.operations import BudgetMethods, OperatorMethods
from licorne_server.services.admin.plans import PlanMethods
from licorne_server.store.configurations.thread import ConfigThread
from licorne_server.wire.features import modules


class AdminService:
    """The calls of administrators."""

    name = "licorne.v1.Admin"

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        views: Views,
        access: Access,
        thread: ConfigThread,
        eviction: Eviction,
        dumps: Dumps,
        changes: Changes,
        copies: Copies,
        time_slices: TimeSlices,
        log_levels: RmLogLevels,
        budgets: MemberBudgets,
    ) -> None:
        """Serve the engine, its RMs and the reports of its core.

        `thread` parses configurations; `eviction` evicts RMs; `dumps` makes state dumps; `changes` applies
        configurations; plans are made on `copies`; long reads use `time_slices`; `log_levels` has the levels
        that RMs request; `budgets` limit several RMs together.
        """
        rights = Rights(views, access, changes.configurations)
        acts = Acts(rights, engine, rms, views, changes.configurations)
        self._methods = {
            **ConfigurationMethods(rights, thread, changes, budgets.definition).methods(),
            **BudgetMethods(rights, budgets).methods(),
            **MemberMethods(rights, rms.ownership, engine.now).methods(),
            **PlanMethods(rights, rms, time_slices, thread, copies, changes).methods(),
            **OperatorMethods(acts, eviction, dumps, time_slices, log_levels, budgets).methods(),
        }
        for module in modules("admin"):
            self._methods |= module.METHODS(acts).methods()

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods of all subjects by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(self.name, self._methods)
