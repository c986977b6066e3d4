"""Recording what Python does: `python` observes Python code while it runs."""
