"""`admin` is how people and programs ask: the doors of a node, the clients, the command line.

It decides nothing about the log or the image: every request becomes a command or a query of
`statemachine`, and every answer waits for what `quorum` says is committed.
"""
