"""What carries messages: MPI between CPUs, NCCL between GPUs, nothing for one process alone."""
