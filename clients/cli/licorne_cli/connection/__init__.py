"""The server of a command: its address, the credentials, the channel.

`target` settles the target and the credentials from options, environment and `contexts`.
`channel` opens the channel, pages through lists, finds the partitions that are meant, and turns
every failure into a line on stderr and an exit code. `tls` checks the files of the TLS options, and
has the advice where TLS is why there is no connection. `certificates` says why one is refused, for
`healthcheck` too. `errors` reads the details of a failure.
"""
