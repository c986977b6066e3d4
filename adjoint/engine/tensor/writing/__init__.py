"""How elements change: the one way, and what is written with it."""
