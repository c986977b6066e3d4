"""Rows with elements added around them, or cut."""
