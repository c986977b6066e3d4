"""Keys: equal ones mean the same thing."""
