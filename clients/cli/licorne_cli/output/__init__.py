"""Output of commands.

`text` has sentences, amounts for people, data for programs and growing tables. A `listing` declares the
columns of a kind of items, and `printer` prints items in every form of `-o`, once or as they change. Data is
written to stdout, and everything else to stderr.
"""
