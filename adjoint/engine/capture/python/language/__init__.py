"""What Python's constructs do: attributes, subscripts, iteration, operators, calls, classes."""
