"""Discrete Fourier transforms."""

from adjoint import assembly as _assembly

globals().update(_assembly.namespace("fft"))
