"""The simulated network: links, calls, gossip, and damage to bytes on the wire."""
