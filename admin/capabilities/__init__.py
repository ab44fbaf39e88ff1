"""The capabilities of a cluster: each one typed request, its answer and its handler."""
