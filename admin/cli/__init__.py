"""The command line, one module per command group.

Start-up must be fast: `main` imports click alone, and a command imports the rest when it runs.
Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 failed (also in part), 2 usage,
3 not finished.
"""
