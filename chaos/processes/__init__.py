"""Faults on real controller processes, which are killed, paused and cut off while clients write.

A run (`make fire`) starts a cluster in a folder of its own, with the given settings,
injects faults round after round, and checks the result: everything acknowledged must be on every
disk, and all disks must agree. It never touches a process that it has not started, nor the
machine's network.
"""
