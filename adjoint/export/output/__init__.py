"""What an exported program is written as: files, headers, linked code, for which machines."""
