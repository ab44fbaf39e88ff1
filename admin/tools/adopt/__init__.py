"""Taking over the metadata of a KRaft controller set that was stopped.

What is found is checked, told and copied. The original folders are only ever read.
"""
