// The example RM in TypeScript, on stubs that buf makes. Numbers of 64 bits are bigint: none is rounded.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { applications, Books, nodes, QUEUES, RM } from "./books.js";
import {
  type AllocationRequestSchema, type ApplicationRequestSchema, type NodeRequestSchema, Scheduler,
} from "./gen/licorne/si/v1/si_pb.js";
import { Session, type UpdateRequestSchema } from "./gen/licorne/v1/session_pb.js";
import { Outgoing } from "./outgoing.js";

type Request = MessageInitShape<typeof UpdateRequestSchema>;
type Releases = ReturnType<Books["note"]>;
const instance = BigInt(Date.now());

/** One stream of a session, from its hello on. Without a resume token it begins with a replay. */
async function overSession(transport: Transport, books: Books) {
  const out = new Outgoing<Request>();
  let number = 0n;
  let acknowledged = 0n;
  const send = (message: Request["message"]) => out.push({ number: ++number, acknowledged, message });
  const release = (items: Releases) => {
    if (items.length > 0) send({ case: "allocations", value: { releases: { allocationsToRelease: items } } });
  };
  out.push({ message: { case: "hello", value: { rmId: RM, instance, protocol: 1, registration: { config: QUEUES } } } });
  for await (const response of createClient(Session, transport).update(out)) {
    if (response.number) acknowledged = response.number;
    const { case: kind, value } = response.message;
    if (kind === "welcome") {
      console.log("registered");
      send({ case: "replayBegin", value: {} });
      send({ case: "nodes", value: { nodes } });
      send({ case: "applications", value: { new: applications } });
      send({ case: "allocations", value: { allocations: books.all } });
      send({ case: "replayEnd", value: { nodes: nodes.length, applications: 1, allocations: books.all.length } });
    } else if (kind === "heartbeat") {
      out.push({ acknowledged, message: { case: "heartbeat", value: {} } });
    } else if (kind === "replayResult") {
      if (!value.complete) throw new Error(value.reason);
      release(books.replayed());
    } else if (kind === "allocations") {
      release(books.note(value));
    }
    if (books.isOver) {
      send({ case: "goodbye", value: { unregister: true } });
      out.end();
    }
  }
}

/** The three streams of the published interface. They have no order among them, so each waits for the one before. */
async function overSi(transport: Transport, books: Books) {
  const client = createClient(Scheduler, transport);
  await client.registerResourceManager({ rmID: RM, config: QUEUES });
  console.log("registered");
  const [nodesOut, appsOut, asksOut] = [
    new Outgoing<MessageInitShape<typeof NodeRequestSchema>>(),
    new Outgoing<MessageInitShape<typeof ApplicationRequestSchema>>(),
    new Outgoing<MessageInitShape<typeof AllocationRequestSchema>>(),
  ];
  const [nodesIn, appsIn, asksIn] = [client.updateNode(nodesOut), client.updateApplication(appsOut), client.updateAllocation(asksOut)];
  nodesOut.push({ rmID: RM, nodes });
  let accepted = 0;
  for await (const response of nodesIn) if ((accepted += response.accepted.length) === nodes.length) break;
  appsOut.push({ rmID: RM, new: applications });
  for await (const response of appsIn) if (response.accepted.length > 0) break;
  asksOut.push({ rmID: RM, allocations: books.all });
  const known = books.all.filter((one) => one.nodeID).length;
  let echoed = 0;
  const release = (items: Releases) => {
    if (items.length > 0) asksOut.push({ rmID: RM, releases: { allocationsToRelease: items } });
  };
  for await (const response of asksIn) {
    // The server echoes every allocation that it was told of.
    echoed += response.new.length;
    release(books.note(response));
    if (known > 0 && echoed === known) release(books.replayed());
    if (books.isOver) break;
  }
}

const [target, mode, restart] = process.argv.slice(2);
const run = { session: overSession, si: overSi }[mode];
if (!target || !run) throw new Error("usage: main.js HOST:PORT session|si [restart]");
const books = new Books(restart === "restart");
while (!books.isOver) {
  try {
    await run(createGrpcTransport({ baseUrl: `http://${target}` }), books);
  } catch (error) {
    if (books.isOver) break;
    console.error(`lost: ${error}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
process.exit(0);
