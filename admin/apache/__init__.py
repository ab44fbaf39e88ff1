"""Apache Kafka's own brokers and tools as processes of this machine: jars, Java, files.

It knows nothing of who starts them. Nothing of Kafka is in this project: Maven brings it, once.
"""
