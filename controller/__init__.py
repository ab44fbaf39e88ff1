"""The active controller: the state machine on the quorum, its event queue, its Kafka listener."""
