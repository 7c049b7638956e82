"""Messages made from the descriptors of both packages, valid except for the chosen errors.

`values` has the contents of fields, and pieces of which no protobuf library would write some. `drawing` draws
a message and spoils it, `stage` sends it to a server without sockets and judges the answers, `corpus` keeps
messages in files.
"""
