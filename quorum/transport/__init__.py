"""Kafka frames over TCP: listeners, client channels, and their limits.

Request bodies are opaque here. Requests are pipelined: an endpoint reads all bytes that have
arrived, and sends everything from one turn of the event loop in one write. A request has neither a
task nor a timer of its own.
"""
