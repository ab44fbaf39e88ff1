"""Taking over the metadata of a KRaft controller set that was stopped.

Their contents are checked, reported and copied. The original folders are never changed.
"""
