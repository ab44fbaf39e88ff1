"""The state machine: the meaning of the metadata log. Pure functions over an image.

`decide(image, command)` returns the records and the answer of a command; `replay(image, record,
offset)` alone changes an image. No I/O, no clock, no randomness, no set order: the same log gives
the same image, and the same image and command give the same records, on every node.
"""
