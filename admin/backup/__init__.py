"""Back up the metadata of a running cluster, check it, and found a cluster from it.

A backup is a snapshot and the log behind it, as the leader serves them to observers, with a
manifest that names the files, their checksums and what they are as of.
"""
