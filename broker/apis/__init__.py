"""The Kafka listener of a broker, one module for each group of requests.

A handler runs in the event loop and never waits. It takes a request and its decoded message, and
returns the fields of the response, or None to respond later. A malformed request raises
`Malformed`, which closes the connection; nothing else that a client sends raises.
"""
