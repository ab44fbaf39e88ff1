"""Storage of a replica: its log, election state, snapshots and identity.

Records are opaque here. Each file format is Kafka's, so that Kafka's tools read our folders and we
read Kafka's.
"""
