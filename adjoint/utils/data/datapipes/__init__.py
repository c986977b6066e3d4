"""Chains of datasets."""

from adjoint.utils.data.datapipes import iter as iter
from adjoint.utils.data.datapipes import map as map
