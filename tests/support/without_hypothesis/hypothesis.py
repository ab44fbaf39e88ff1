"""Hide hypothesis from the programs that tests start: users do not have it installed.

If kio finds it, kio registers a strategy for each of its types (`kio.static.primitive`): 1.4 s of
processor time for every node that a test starts.
"""

raise ImportError("hypothesis is for tests; the programs that they start have none")
