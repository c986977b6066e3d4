"""Ways of communicating beside the plain ones."""
