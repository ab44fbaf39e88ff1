"""A hostile node: what it sends, and how it is told that it may not."""
