"""Storage of a replica: its log, election state, snapshots and identity.

Nothing here decides anything about the quorum or knows what a record means. Each file format is
Kafka's, so that Kafka's tools read our folders and we read Kafka's.
"""
