"""Recording: what stands in `CONTEXT.capture` while a graph is made."""
