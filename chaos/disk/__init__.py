"""The simulated disk, and recovery from a power loss at every operation."""
