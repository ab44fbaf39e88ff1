"""Kafka frames over TCP: who listens, who asks, and how much may wait in between.

Nothing here knows what a request means. Requests are pipelined: an endpoint reads all that has
arrived, and all that it has to say in one turn of the event loop leaves in one write. There is
neither a task nor a timer for each request.
"""
