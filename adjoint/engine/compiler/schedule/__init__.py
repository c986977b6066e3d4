"""The steps of a program, one after another."""
