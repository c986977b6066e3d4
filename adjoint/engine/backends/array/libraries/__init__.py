"""Libraries of NVIDIA's beside CuPy, each behind a thin layer; optional, and loaded when used."""
