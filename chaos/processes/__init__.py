"""Real controllers under fire: processes that are killed, held up and cut off while clients write.

`python -m chaos.processes` starts a cluster of its own in a folder of its own, with the settings
that it is given, hurts it round after round, and judges what is left: everything that was
acknowledged must be on every disk, and all disks must agree. It never touches a process that it
has not started, nor the network of the machine.
"""
