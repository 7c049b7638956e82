"""Messages made from the descriptors of both packages, valid but for what was chosen to be wrong.

`pieces` writes bytes that no protobuf library would write, `values` has what fields are filled
with, `drawing` draws a message and spoils it, `stage` sends it to a server without sockets and
judges the answers, `corpus` keeps messages in files.
"""
