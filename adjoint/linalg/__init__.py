"""Linear algebra: factorisations, solvers, norms and eigenvalues."""

from adjoint.engine import assembly as _assembly
from adjoint.engine.core.errors import LinAlgError as LinAlgError

globals().update(_assembly.namespace("linalg"))
