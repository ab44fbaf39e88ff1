"""Clients, producers and consumers of a simulated cluster."""
