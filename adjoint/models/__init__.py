"""Models, each in its own file, with the weight names of published checkpoints."""
