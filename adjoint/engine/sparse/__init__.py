"""Sparse tensors: COO and CSR, made of ordinary ones; rules by record."""

from adjoint.engine.sparse import rules

rules.install()
