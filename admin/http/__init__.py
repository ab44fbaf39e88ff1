"""Front door 2: HTTP with JSON. It translates, and decides nothing.

The same capabilities as the Kafka door, in the words of JSON: snake_case, Kafka's terms, errors
as `application/problem+json` (RFC 9457).
"""
