"""The `licorne` command line.

`commands` has the table of commands and runs one of them. A line goes through `parsing`, settles
its server in `connection`, and prints by `output`. The commands:

- `nouns`: queues, applications, nodes, RMs, users, events: lists, verbs, explanations
- `config`: configurations of RMs, and plans
- `server`: the server as a process: version, log levels, health
- `screen`: the full-screen `top`

They need gRPC and the published client. `demo`, `bench`, `fake-rm`, `validate-config` and `serve` run code of
the server here, and are in `licorne_server.commands`.
"""
