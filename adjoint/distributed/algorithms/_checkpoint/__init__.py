"""Recomputing what modules did, at PyTorch's path."""
