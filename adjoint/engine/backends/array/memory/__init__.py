"""Memory of the host: how it is allocated, shared between processes and read by strides."""
