"""What is there and what is not: optional libraries, and devices that only PyTorch knows."""
