"""Averages of parameters over processes that train apart for a while."""
