"""The story of a failing run: its events in the product's words, a diagram, and the promise."""
