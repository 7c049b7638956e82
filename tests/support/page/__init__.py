"""The page in a browser, and those who look at it."""
