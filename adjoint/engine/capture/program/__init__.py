"""A finished recording: inputs, results, effects, numbers of the host."""
