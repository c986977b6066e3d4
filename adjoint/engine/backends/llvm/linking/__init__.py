"""Kept object code made callable without LLVM, and the name of this machine."""
