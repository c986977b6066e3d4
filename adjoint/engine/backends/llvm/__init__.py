"""Native CPU code: LLVM through llvmlite, the workers that run it, the cache that keeps it."""
