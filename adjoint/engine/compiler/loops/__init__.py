"""Fused kernels as loop nests, free of graph and sizes."""
