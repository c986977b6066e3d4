"""What is said of matrices that an operation cannot treat, by operation."""

from __future__ import annotations

SINGULAR = {
    "solve": "The solver failed because the input matrix is singular.",
    "inv": "The diagonal element {info} is zero, the inversion could not be completed because the "
    "input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not "
    "positive-definite (the leading minor of order {info} is not positive-definite).",
    "lu_factor": "U[{info},{info}] is zero and using it on lu_solve would result in a division by "
    "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)",
    "ldl_factor": "The factorization could not be completed: D[{info},{info}] is zero.",
}


def kind_of(record: str, called: str) -> str:
    """Whose message: factors for a system say what the system would."""
    return "solve" if called.startswith("linalg.solve") else record


# Of systems whose factors are given.
WRONG_PIVOTS = "linalg.ldl_solve: the pivots are none that linalg.ldl_factor gives."
# Of eigenvalues and singular values.
NOT_FINITE = (
    "The algorithm failed to converge because the input matrix contained non-finite values."
)
UNFINISHED = "The algorithm failed to converge: too many of its steps."
NO_EIGENVALUES = "linalg.eig: input tensor should not contain infs or NaNs."
