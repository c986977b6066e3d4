"""What type checkers must know of the public API."""
