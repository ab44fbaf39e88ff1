"""The broker: stores partition data, replicates it and reports who is in sync.

A broker observes the metadata quorum and is a client of the active controller. It reads its
assignments from the metadata log and asks the controller for every ISR change; it decides neither.
"""
