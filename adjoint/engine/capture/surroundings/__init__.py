"""What a function can see besides its arguments, and what it does to it."""
