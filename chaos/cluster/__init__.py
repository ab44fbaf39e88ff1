"""What brokers, partitions and operators do to a simulated cluster, and who judges what it does.

Judges know the log by its bytes: nothing here uses `statemachine`, which is what they judge.
"""
