"""A simulated cluster: brokers, partitions and clients on top of the simulated quorum.

Its checkers read the log by its bytes and use nothing of `statemachine`, which they check.
"""
