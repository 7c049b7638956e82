"""Messages made from the descriptors of both packages, valid except for chosen errors.

`values` has the contents of fields, including some that no protobuf library would write. `drawing` draws a
message and damages it, `stage` sends it to a server without sockets and judges the answers, `corpus` stores
messages in files.
"""
