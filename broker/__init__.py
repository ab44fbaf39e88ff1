"""broker obeys: it holds partition data, copies it, and reports who is in sync.

A broker is an observer of the metadata quorum and a client of its active controller. What a
partition is, who holds it and who leads it, it reads from the metadata log; what it wants
changed (who is in sync), it asks for. It never decides either by itself.
"""
