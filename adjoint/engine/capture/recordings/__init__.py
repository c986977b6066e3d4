"""The recordings of a compiled function: how many, why, and what they show."""
