"""Linear algebra: a few factorisations as primitives, the rest made of them."""
