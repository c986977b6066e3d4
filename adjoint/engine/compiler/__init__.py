"""From a graph to a program that runs without Python: one stage a folder."""
