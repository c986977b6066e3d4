"""LLVM's text as one C file, for compilers that know GCC's vectors."""
