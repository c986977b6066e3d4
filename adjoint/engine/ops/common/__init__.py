"""What operations of every subject share."""
