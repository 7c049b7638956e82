"""What operators did to applications survives, until these are over."""

from pathlib import Path

from licorne.si.v1 import si_pb2 as si
from licorne.v1.admin_pb2 import ChangeApplicationRequest, HoldApplicationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.values.ids import PartitionName
from support.peers.shim import Shim, connected, eventually, serving

TWO = """
partitions:
- name: default
  placementrules: [{name: fixed, value: root.a}]
  queues: [{name: root, submitacl: "*", queues: [{name: a}, {name: b}]}]
"""


async def test_a_restart_keeps_what_operators_did_to_an_application(tmp_path: Path) -> None:
    """The RM names it again with its old queue, and it is held, moved and of another priority."""
    hold = HoldApplicationRequest(rm_id="rm", application_id="app", held=True, message="data")
    change = ChangeApplicationRequest(rm_id="rm", application_id="app", queue="root.b", priority=-4)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).set_up(config=TWO)
        await AdminStub(channel).HoldApplication(hold)
        await AdminStub(channel).ChangeApplication(change)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        shim = Shim(channel)
        _, applications, _ = await shim.set_up(config=TWO)
        app = server.scheduler.views.application(PartitionName("[rm]default"), "app")
        assert (app.queue, app.operator_priority) == ("root.b", -4)
        assert app.hold is not None
        assert app.change is not None
        assert (app.hold.message, app.hold.time > 0, bool(app.change.by)) == ("data", True, True)
        removal = si.RemoveApplicationRequest(applicationID="app", partitionName="default")
        await applications.send(si.ApplicationRequest(rmID="rm", remove=[removal]))
        await eventually(lambda: not server.changes.configurations.get("rm").marks)
