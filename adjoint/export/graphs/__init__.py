"""Exported graphs of operations: PyTorch's `torch.export`."""
