"""The server of a command: its address, the credentials, the channel.

`target` settles the target and the credentials from options, environment and `contexts`.
`channel` opens the channel, pages through lists, and turns every failure into a line on stderr and
an exit code. `missing` names the RM or partition that is not there. `tls` checks the files of the
TLS options; `tls_probe` says what to do where TLS is why there is no connection.
"""
