"""Hypothesis as the programs see it that tests start: it is not there, as it is not at a user's.

Where kio finds it, it registers a strategy for each of its types (`kio.static.primitive`), for
which no user waits, and a test did at every node that it started: 1.4 s of processor time.
"""

raise ImportError("hypothesis is for tests; the programs that they start have none")
