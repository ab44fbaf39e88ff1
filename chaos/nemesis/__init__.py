"""Faults: what strikes a simulated quorum, and the operator who repairs it."""
