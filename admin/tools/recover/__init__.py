"""Let a cluster go on whose majority is lost for good, from the folders that are left.

Their contents are checked and reported, and changed only after a typed confirmation.
"""
