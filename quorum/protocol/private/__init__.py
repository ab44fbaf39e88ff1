"""The messages of APIs that Kafka does not have, as classes of kio's kind, one module for each API.

Nothing is said here of what the messages mean. Importing this package imports no schema.
"""
