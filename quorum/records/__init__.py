"""Kafka's record batches, magic 2: encode, check, stamp and decode.

One batch is the same bytes in memory, on disk and on the wire. Nothing here touches a file, a
socket or a clock, and nothing knows what the values of the records mean, control records aside.
"""
