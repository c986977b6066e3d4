"""Loop kernels as LLVM text."""
