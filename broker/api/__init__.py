"""The broker's front door: Kafka requests of clients and of other brokers, one file for each group.

A handler is called in the event loop and never waits: it answers at once, or leaves the request
where something that happens later will answer it. What a client sends never raises anything but
`Malformed`, which closes its connection.
"""
