"""A library of tensors for C: its header and source, with kernels that LLVM makes."""
