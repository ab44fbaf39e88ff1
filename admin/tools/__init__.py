"""Tools for operators: local cluster, demo, dump, adoption of a KRaft cluster, Kafka's jars."""
