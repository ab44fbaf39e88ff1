"""A broker process in virtual time, around the product's own broker code."""
