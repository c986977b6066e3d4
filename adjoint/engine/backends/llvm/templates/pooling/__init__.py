"""Max pooling, and what moves elements along one dimension."""
