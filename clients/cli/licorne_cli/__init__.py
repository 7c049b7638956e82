"""The `licorne` command line, for any machine that can reach a server.

`commands` has the table of commands and runs one of them. `parsing` parses a line, `connection` determines
its server, and `output` prints. The commands:

- `nouns`: queues, applications, nodes, RMs, users, events: lists, verbs, explanations
- `config`: configurations of RMs, and plans
- `server`: the server as a process: version, log levels, health
- `screen`: the full-screen `top`

They need gRPC and the published client. `plugins` finds the commands of other distributions: `licorne-server`
has those that run its code on this machine, and `licorne-tools` has `bench`.
"""

DISTRIBUTION = "licorne-cli"
"""The distribution of this package, which has the version."""
