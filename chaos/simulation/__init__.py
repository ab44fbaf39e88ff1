"""The simulated quorum: virtual time, machines, processes and a run of one seed."""
