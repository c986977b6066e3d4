"""Programs as plain data: named, kept on disk, given addresses, explained."""
