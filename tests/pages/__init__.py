"""Pages that people open, checked in a real browser: `make pages`."""
