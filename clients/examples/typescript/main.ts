// The example RM in TypeScript, on stubs that buf generates. 64-bit numbers are bigint, so none is rounded.
import { ConnectError } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { all } from "./cluster.js";
import { overSession } from "./session.js";
import { overSi } from "./si.js";

const [target, mode, restart] = process.argv.slice(2);
const run = { session: overSession, si: overSi }[mode];
if (!target || !run) throw new Error("usage: main.js HOST:PORT session|si [restart]");
while (all().length > 0) {
  try {
    // With `restart`, nothing is released before a replay.
    await run(createGrpcTransport({ baseUrl: `http://${target}` }), restart === "restart");
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    console.error(error.message);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
process.exit(0);
