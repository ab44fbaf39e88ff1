"""The records of the metadata log as values, and their codec: Kafka's schemas byte for byte."""
