"""Client histories and a linearizability checker for them (L1 to L5)."""
