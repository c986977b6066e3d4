"""Linear algebra: factorisations, solvers, norms and eigenvalues."""

from adjoint import assembly as _assembly
from adjoint.core.errors import LinAlgError as LinAlgError

globals().update(_assembly.namespace("linalg"))
