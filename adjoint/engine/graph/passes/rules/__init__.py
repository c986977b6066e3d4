"""The rules that simplify applies, by subject."""
