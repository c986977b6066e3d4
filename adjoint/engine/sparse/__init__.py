"""Sparse tensors: coordinates or lines, made of ordinary ones; rules by record."""

from adjoint.engine.sparse import rules

rules.install()
