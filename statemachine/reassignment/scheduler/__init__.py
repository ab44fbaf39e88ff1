"""The reassignment scheduler: the next partitions to begin a step, within the limits (KIP-435)."""
