"""statemachine gives the log a meaning. It is functions over an image, and nothing else.

`decide(image, command)` says which records a command means and what to answer; `replay(image,
record, offset)` is the only thing that changes an image. Nothing here waits, stores, sends or tells
time, and nothing depends on the order in which a set happens to iterate: the same log gives the
same image, and the same image and command give the same records, on every node.
"""
