"""Files made to do harm: every reader of the package against mutated and crafted ones."""
