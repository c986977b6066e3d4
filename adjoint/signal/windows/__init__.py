"""Window functions."""

from adjoint.engine import assembly as _assembly

globals().update(_assembly.namespace("signal.windows"))
