"""Quantised models in files: our own, GGUF, and checkpoints of GPTQ and AWQ."""
