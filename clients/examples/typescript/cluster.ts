// The items of this resource manager: ten nodes, one application, and a thousand asks.
import { create } from "@bufbuild/protobuf";
import {
  type AllocationResponse, AllocationSchema, NodeInfo_ActionFromRM, TerminationType,
} from "./gen/licorne/si/v1/si_pb.js";

export const RM = "example-typescript";
export const QUEUES =
  'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]';
export const COUNT = 1000;

const vcore = (value: bigint) => ({ resources: { vcore: { value } } });

export const nodes = Array.from({ length: 10 }, (_, i) => ({
  nodeID: `n${i}`, action: NodeInfo_ActionFromRM.CREATE, schedulableResource: vcore(100_000n),
}));
export const applications = [{ applicationID: "a1", queueName: "root.examples", ugi: { user: "ann" } }];

/** The asks and allocations by key. An ask has no node, and an allocation that runs has one. So this is all that a replay needs. */
const items = new Map(Array.from({ length: COUNT }, (_, i) => [`k${i}`, create(AllocationSchema, {
  allocationKey: `k${i}`, applicationID: "a1", resourcePerAlloc: vcore(1000n),
})]));

export const all = () => [...items.values()];
export const running = () => all().filter((one) => one.nodeID).length;

export function note(response: AllocationResponse) {
  checkNone(response.rejectedAllocations);
  for (const one of response.new) items.set(one.allocationKey, one);
  for (const one of response.released) items.delete(one.allocationKey);
}

/** What the server rejects it would reject again. */
export function checkNone(rejected: { reason: string }[]) {
  for (const one of rejected) throw new Error(`rejected: ${one.reason}`);
}

export const releases = () => ({
  releases: {
    allocationsToRelease: all().map(({ allocationKey, applicationID }) => ({
      allocationKey, applicationID, terminationType: TerminationType.STOPPED_BY_RM,
    })),
  },
});
