"""The folders of quorum logs as tables: readers that know no Spark, and the data source above them.

They read what is there, of any number of replicas, running or dead, ours or Kafka's. They never
write, lock or repair, and leave nothing out in silence: what cannot be read is a row of `problems`.
"""
