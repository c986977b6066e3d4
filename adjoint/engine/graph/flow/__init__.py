"""Control flow as operations with subgraphs: scan, cond, while_loop."""
