"""The `licorne` command line.

`commands` has the table of commands and runs one of them. A line goes through `parsing`, settles
its server in `connection`, and prints by `output`. The commands:

- `nouns`: queues, applications, nodes, RMs, users, events: lists, verbs, explanations
- `config`: configurations of RMs, and plans
- `server`: the server as a process: version, log levels, health
- `screen`: the full-screen `top`
- `local`: what runs code of the server here: `demo`, `bench`, `fake-rm`, `validate-config`, `serve`

All but `local` are to need gRPC and the published client alone.
"""
