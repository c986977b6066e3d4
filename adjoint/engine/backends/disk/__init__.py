"""The disk cache: compiled code and plans by content, in folders that only their user can write."""
