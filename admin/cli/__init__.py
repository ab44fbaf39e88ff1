"""The command lines, one file per group; what is printed is made by pure functions beside them.

Starting must be quick: `main` imports nothing but click, and each command imports what it needs
when it runs. Data goes to stdout, talk to stderr. Exit codes: 0 done, 1 failed (also in part),
2 usage, 3 not finished.
"""
