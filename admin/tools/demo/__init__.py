"""The demo of `make run`: partitions move, their controller is killed, and nothing is lost.

Everything in it is real: processes, files, sockets, SIGKILL. Every printed number is measured, and
it fails when a record that was acknowledged cannot be read back, or a move does not complete.
"""
