"""What runs along a dimension: cumulative sums, recurrences."""
