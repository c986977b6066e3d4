"""How a step runs its rule: for one parameter, for many at once, or as a compiled program."""
