"""Small stateful programs, each played without and with `compile`: what they give must be the same."""
