"""The faults of a simulated quorum, and the operator who repairs it."""
