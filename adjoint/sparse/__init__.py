"""Sparse tensors: products, sums and softmax; the constructors are at the top level."""

from __future__ import annotations

from adjoint.sparse import rules as _rules
from adjoint.sparse.creation import KINDS as _KINDS
from adjoint.sparse.products import addmm as addmm
from adjoint.sparse.products import mm as mm
from adjoint.sparse.products import sampled_addmm as sampled_addmm
from adjoint.sparse.reductions import log_softmax as log_softmax
from adjoint.sparse.reductions import softmax as softmax
from adjoint.sparse.reductions import sum as sum

_rules.install()
globals().update(_KINDS)
