"""Event streams: the state of a resource as server-sent events, read once for all who watch it."""
