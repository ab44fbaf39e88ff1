"""One partition as a value, and every rule that changes one: ISR, leader, ELR."""
