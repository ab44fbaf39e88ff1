"""Administration: capabilities, HTTP, clients, command line, settings, tools, controller process.

It decides nothing about the log or the image: a request becomes a command or a query of
`statemachine`, and its answer waits until the records behind it are committed.
"""
