"""The Kafka protocol as bytes: framing, headers, bodies, and the quorum's flat messages in it.

Nothing here opens a socket, waits or decides. Bytes come in and values go out, or the reason why
not (`BadFrame`, `Malformed`); what a peer sends never raises anything else. The message schemas
are kio's; they are imported when first used, so that a command line starts without them.
"""
