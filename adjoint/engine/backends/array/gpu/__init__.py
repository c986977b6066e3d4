"""GPUs through CuPy: devices, memory, streams, transfers, faults."""
