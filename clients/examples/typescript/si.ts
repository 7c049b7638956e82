import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { all, applications, checkNone, COUNT, nodes, note, QUEUES, releases, RM, running } from "./cluster.js";
import {
  type AllocationRequestSchema, type ApplicationRequestSchema, type NodeRequestSchema, Scheduler,
} from "./gen/licorne/si/v1/si_pb.js";
import { Outgoing } from "./outgoing.js";

/** The three streams of the published interface. They have no order among them, so each waits for the one before. */
export async function overSi(transport: Transport, restart: boolean) {
  const client = createClient(Scheduler, transport);
  await client.registerResourceManager({ rmID: RM, config: QUEUES });
  console.log("registered");
  const nodesOut = new Outgoing<MessageInitShape<typeof NodeRequestSchema>>();
  const appsOut = new Outgoing<MessageInitShape<typeof ApplicationRequestSchema>>();
  const asksOut = new Outgoing<MessageInitShape<typeof AllocationRequestSchema>>();
  const nodesIn = client.updateNode(nodesOut)[Symbol.asyncIterator]();
  const appsIn = client.updateApplication(appsOut)[Symbol.asyncIterator]();
  const asksIn = client.updateAllocation(asksOut)[Symbol.asyncIterator]();

  nodesOut.push({ rmID: RM, nodes });
  for (let accepted = 0; accepted < nodes.length; ) {
    const response = await next(nodesIn);
    checkNone(response.rejected);
    accepted += response.accepted.length;
  }
  appsOut.push({ rmID: RM, new: applications });
  checkNone((await next(appsIn)).rejected);

  const replaying = running() > 0;
  asksOut.push({ rmID: RM, allocations: all() });
  let confirmed = 0;
  while (all().length > 0) {
    const response = await next(asksIn);
    note(response);
    // The server echoes every reported allocation.
    confirmed += response.new.length;
    if (response.new.length > 0 && confirmed === COUNT) {
      console.log(`${replaying ? "replayed " : ""}${COUNT} allocations`);
      if (replaying || !restart) asksOut.push({ rmID: RM, ...releases() });
    }
  }
  console.log(`${COUNT} releases`);
}

async function next<T>(stream: AsyncIterator<T>): Promise<T> {
  const { done, value } = await stream.next();
  if (done) throw new ConnectError("the server has ended the stream", Code.Unavailable);
  return value;
}
