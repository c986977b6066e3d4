"""What processes say to one another: collectives, messages, and how they are under way."""
