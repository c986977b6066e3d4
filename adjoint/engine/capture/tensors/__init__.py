"""What the recorder of Python is told about tensors, arrays and numbers of each call."""
