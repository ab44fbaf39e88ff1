"""The capabilities of a cluster: each one typed request and its answer."""
