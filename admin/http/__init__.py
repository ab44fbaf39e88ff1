"""The HTTP listener: the capabilities as JSON, with errors as problem details (RFC 9457)."""
