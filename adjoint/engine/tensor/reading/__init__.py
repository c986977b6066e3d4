"""What a tensor tells: its fields, its elements as Python values, its text."""
