"""Kafka's record batches, magic 2: encode, check, stamp and decode.

One batch is the same bytes in memory, on disk and on the wire. Pure functions; the values of the
records are opaque, except those of control records.
"""
