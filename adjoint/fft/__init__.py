"""Discrete Fourier transforms."""

from adjoint.engine import assembly as _assembly

globals().update(_assembly.namespace("fft"))
