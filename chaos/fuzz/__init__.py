"""Hostile bytes for real nodes: seeded frames at each listener, and a judge of what they leave."""
