"""The invariants of the quorum (R1 to R32), checked from the wire and the disks."""
