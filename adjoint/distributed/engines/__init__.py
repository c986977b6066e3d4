"""What carries messages: MPI, NCCL between GPUs, or nothing for one process alone."""
