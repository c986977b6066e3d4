"""Compiled functions: recorded once, replayed while what they read is unchanged."""
