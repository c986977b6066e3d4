"""Groups of processes: setting them up, knowing who is in them and who is still there."""
