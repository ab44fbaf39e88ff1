"""The Kafka protocol as bytes: framing, headers, bodies, and the quorum's flat messages.

Pure functions from bytes to values and back. Bytes from a peer raise only `BadFrame`, `Malformed`
and `UnsupportedVersion`. The message schemas are kio's; they are imported when first used, so that
a command line starts without them.
"""
