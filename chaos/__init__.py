"""How we try to break it: a world of its own for the very same code, and judges that trust nobody.

A virtual clock, network and disk under one seed. Nothing here is imported by the product.
"""
