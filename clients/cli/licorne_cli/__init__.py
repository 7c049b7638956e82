"""The `licorne` command line, for any machine that can reach a server.

`commands` has the table of commands and runs one of them. A line goes through `parsing`, settles
its server in `connection`, and prints by `output`. The commands:

- `nouns`: queues, applications, nodes, RMs, users, events: lists, verbs, explanations
- `config`: configurations of RMs, and plans
- `server`: the server as a process: version, log levels, health
- `screen`: the full-screen `top`

They need gRPC and the published client. `plugins` finds the commands of other distributions:
`licorne-server` has those that run its code here, and `licorne-tools` has `bench`.
"""

DISTRIBUTION = "licorne-cli"
"""The distribution of this package, which has the version."""
