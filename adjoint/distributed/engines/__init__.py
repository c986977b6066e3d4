"""What carries messages: MPI, or nothing for one process alone."""
