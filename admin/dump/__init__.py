"""Looking into the files of a metadata log: what stands in them, under Kafka's names.

It reads copies and originals alike, and never writes, locks or repairs anything.
"""
