"""Faults that we plant in the product, each of a line or two and by name, to see them found.

A harness that finds nothing may be one that cannot. Nothing here is in force unless a process was
started to plant it (`python -m chaos.mutants`), and only in that process. The lists are in
`elections`, `logs` and `storage`; this package imports nothing of the product, for what has been
imported can no longer be changed.
"""
