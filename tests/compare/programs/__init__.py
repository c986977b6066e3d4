"""Small programs around the tape, written once and run under both frameworks."""
