"""Transforms as levels: grad, jvp and vmap, each in terms of the level below."""
