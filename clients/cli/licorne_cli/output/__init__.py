"""What commands print.

`text` has sentences, amounts for people, data for programs and growing tables. A `listing` declares
the columns of a kind of things, and `printer` prints them in every form of `-o`, also as they
change. Data goes to stdout, everything else to stderr.
"""
