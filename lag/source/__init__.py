"""Quorum logs as tables: readers that do not use Spark, and a Spark data source above them.

The readers accept any number of replicas, running or dead, ours or Kafka's. They never write, lock
or repair. Whatever cannot be read is a row of `problems`.
"""
