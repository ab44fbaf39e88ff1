"""Which waiting partition begins its next step, within the configured limits (KIP-435)."""
