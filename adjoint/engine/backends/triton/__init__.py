"""The GPU as a target: kernels written in Triton, whole programs replayed as CUDA graphs."""
