"""Brokers: registration, heartbeats, fencing, shutdown, log directories."""
