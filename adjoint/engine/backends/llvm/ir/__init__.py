"""Values in registers and the LLVM text their operations write."""
