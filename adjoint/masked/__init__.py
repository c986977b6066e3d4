"""Reductions and normalisations in which a mask says which elements count."""

from __future__ import annotations

from adjoint.engine import assembly as _assembly

globals().update(_assembly.namespace("masked"))
