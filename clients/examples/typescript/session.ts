import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { all, applications, COUNT, nodes, note, QUEUES, releases, RM, running } from "./cluster.js";
import { Session, type UpdateRequestSchema } from "./gen/licorne/v1/session_pb.js";
import { Outgoing } from "./outgoing.js";

type Request = MessageInitShape<typeof UpdateRequestSchema>;
const instance = BigInt(Date.now());

/** One stream of a session, from its hello on. Without a resume token it begins with a replay. */
export async function overSession(transport: Transport, restart: boolean) {
  const out = new Outgoing<Request>();
  let number = 0n;
  let acknowledged = 0n;
  const send = (message: Request["message"]) => out.push({ number: ++number, acknowledged, message });
  const release = () => send({ case: "allocations", value: releases() });
  out.push({ message: { case: "hello", value: { rmId: RM, instance, protocol: 1, registration: { config: QUEUES } } } });
  for await (const response of createClient(Session, transport).update(out)) {
    if (response.number) acknowledged = response.number;
    const { case: kind, value } = response.message;
    if (kind === "welcome") {
      console.log("registered");
      send({ case: "replayBegin", value: {} });
      send({ case: "nodes", value: { nodes } });
      send({ case: "applications", value: { new: applications } });
      send({ case: "allocations", value: { allocations: all() } });
      send({ case: "replayEnd", value: { nodes: nodes.length, applications: 1, allocations: all().length } });
    } else if (kind === "heartbeat") {
      out.push({ acknowledged, message: { case: "heartbeat", value: {} } });
    } else if (kind === "replayResult") {
      if (!value.complete) throw new ConnectError(value.reason, Code.DataLoss);
      if (running() === COUNT) {
        console.log(`replayed ${COUNT} allocations`);
        release();
      }
    } else if (kind === "allocations") {
      const before = running();
      note(value);
      if (before < COUNT && running() === COUNT) {
        console.log(`${COUNT} allocations`);
        if (!restart) release();
      }
      if (all().length === 0) {
        console.log(`${COUNT} releases`);
        send({ case: "goodbye", value: { unregister: true } });
        out.end();
      }
    }
  }
}
