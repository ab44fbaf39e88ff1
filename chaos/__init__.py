"""Simulation, fault injection and checkers: everything that breaks the product on purpose.

A virtual clock, network and disk run the product's own code from one seed. The product imports
nothing from here.
"""
