"""The tests of `si.v1`, with a stub that calls a member which does not serve its RM."""

# The folder of the tests, not that of the product.
from server.rms.test_si_corners import *  # noqa: F403, TID251
from server.rms.test_si_streams import *  # noqa: F403, TID251
