"""The server of a command: its address, the credentials, the channel.

`target` takes the target and the credentials from options, environment and `contexts`. `opening` opens the
channel. `channel` pages through lists, resolves partitions, and turns every failure into a line on stderr
and an exit code. `tls` checks the files of the TLS options, and explains failed handshakes. `certificates`
has the reasons of refused certificates, for `healthcheck` too. `errors` reads the details of a failure.
"""
