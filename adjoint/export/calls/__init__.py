"""The functions that C calls, as LLVM text, and what they lay out and check."""
