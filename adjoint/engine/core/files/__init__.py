"""Files: written whole or not at all, read with a budget and with suspicion."""
