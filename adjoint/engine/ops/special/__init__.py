"""Special functions, by kind."""
