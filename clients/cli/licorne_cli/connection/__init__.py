"""The server of a command: its address, the credentials, the channel.

`target` takes the target and the credentials from options, environment and `contexts`. `opening` opens the
channel. `channel` reads lists page by page, resolves partitions, and turns every failure into a line on
stderr and an exit code. `tls` checks the files of the TLS options, and explains failed handshakes.
`certificates` has reasons of refused certificates, also for `healthcheck`. `errors` reads the details of a
failure.
"""
