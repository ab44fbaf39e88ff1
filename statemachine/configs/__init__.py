"""Configurations and client quotas: what may be set, where, and what is in force."""
