"""Window functions."""

from adjoint import assembly as _assembly

globals().update(_assembly.namespace("signal.windows"))
