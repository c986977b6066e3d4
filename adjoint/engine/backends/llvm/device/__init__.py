"""Native code about memory of devices other than the CPU."""
