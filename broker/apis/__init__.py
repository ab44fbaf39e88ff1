"""The Kafka listener of a broker, one module for each group of requests.

A handler runs in the event loop and never waits: it answers at once, or leaves the request with
whatever answers it later. A malformed request raises `Malformed`, which closes the connection;
nothing else that a client sends raises.
"""
