// What this resource manager has, and what it does next, whatever carries its messages.
import { create } from "@bufbuild/protobuf";
import {
  type AllocationResponse, AllocationSchema, NodeInfo_ActionFromRM, TerminationType,
} from "./gen/licorne/si/v1/si_pb.js";

export const RM = "example-typescript";
export const QUEUES =
  'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]';
const COUNT = 1000;

const vcore = (value: bigint) => ({ resources: { vcore: { value } } });

export const nodes = Array.from({ length: 10 }, (_, i) => ({
  nodeID: `n${i}`, action: NodeInfo_ActionFromRM.CREATE, schedulableResource: vcore(100_000n),
}));
export const applications = [{ applicationID: "a1", queueName: "root.examples", ugi: { user: "ann" } }];

export class Books {
  // An ask has no node, and an allocation that runs has one. So this is all that a replay needs.
  private readonly items = new Map(Array.from({ length: COUNT }, (_, i) => [`k${i}`, create(AllocationSchema, {
    allocationKey: `k${i}`, applicationID: "a1", resourcePerAlloc: vcore(1000n),
  })]));
  private phase: "asking" | "waiting" | "releasing" | "over" = "asking";

  /** With `restart` nothing is released before it was replayed. */
  constructor(private readonly restart: boolean) {}

  get all() { return [...this.items.values()]; }
  get isOver() { return this.phase === "over"; }
  private get running() { return this.all.filter((one) => one.nodeID).length; }

  /** Note what the server says; returns what to release then, which mostly is nothing. */
  note(response: AllocationResponse) {
    for (const one of response.new) this.items.get(one.allocationKey)!.nodeID = one.nodeID;
    for (const one of response.released) this.items.delete(one.allocationKey);
    for (const one of response.rejectedAllocations) throw new Error(`${one.allocationKey}: ${one.reason}`);
    if (this.phase === "asking" && this.running === COUNT) {
      console.log(`${COUNT} allocations`);
      this.phase = "waiting";
      if (!this.restart) return this.release();
    }
    if (this.phase === "releasing" && this.items.size === 0) {
      console.log(`${COUNT} releases`);
      this.phase = "over";
    }
    return [];
  }

  /** The server knows all of it again; returns what to release then. */
  replayed() {
    if (this.phase !== "waiting") return [];
    console.log(`replayed ${this.running} allocations`);
    return this.release();
  }

  private release() {
    this.phase = "releasing";
    return this.all.map(({ allocationKey, applicationID }) => ({
      allocationKey, applicationID, terminationType: TerminationType.STOPPED_BY_RM,
    }));
  }
}
