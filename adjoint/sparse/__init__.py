"""Sparse tensors: products, sums and softmax; the constructors are at the top level."""

from __future__ import annotations

from adjoint.engine.sparse.creation import KINDS as _KINDS
from adjoint.engine.sparse.diagonals import spdiags as spdiags
from adjoint.engine.sparse.invariants import (
    check_sparse_tensor_invariants as check_sparse_tensor_invariants,
)
from adjoint.engine.sparse.products import addmm as addmm
from adjoint.engine.sparse.products import mm as mm
from adjoint.engine.sparse.products import sampled_addmm as sampled_addmm
from adjoint.engine.sparse.reductions import log_softmax as log_softmax
from adjoint.engine.sparse.reductions import softmax as softmax
from adjoint.engine.sparse.reductions import sum as sum
from adjoint.sparse.semi_structured import (
    SparseSemiStructuredTensor as SparseSemiStructuredTensor,
)
from adjoint.sparse.semi_structured import (
    SparseSemiStructuredTensorCUSPARSELT as SparseSemiStructuredTensorCUSPARSELT,
)
from adjoint.sparse.semi_structured import (
    SparseSemiStructuredTensorCUTLASS as SparseSemiStructuredTensorCUTLASS,
)
from adjoint.sparse.semi_structured import (
    to_sparse_semi_structured as to_sparse_semi_structured,
)

globals().update(_KINDS)
