"""Graphs: typed SSA, recorded or made by hand."""
