"""Graph-to-graph passes, one to a file; `pipeline` is their order."""
