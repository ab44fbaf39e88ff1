"""TLS and SASL for listeners and channels: they prove who is at the other end.

`protocols.py` says what a listener or a channel is given; nothing here reads a setting by name, and
nothing here decides what a principal may do.
"""
