"""Named faults of a line or two, planted in the product to prove that the tests find them.

A harness that finds nothing may be unable to find anything. A fault is active only in a process
that was started to plant it (`python -m chaos.mutants`). `catalogue` collects the lists. This
package imports nothing of the product, because a module cannot be changed after its import.
"""
