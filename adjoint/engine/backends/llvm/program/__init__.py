"""Programs of native code: planned for many sizes, given memory and addresses, and run."""
