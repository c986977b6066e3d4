"""The Python array API standard on Adjoint's tensors: what SciPy and scikit-learn compute with.

    xp = x.__array_namespace__()

Functions take any Tensor and give an `Array`, a Tensor whose operators follow the standard.
"""

from __future__ import annotations

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import Any

from adjoint.array_api import fft as fft
from adjoint.array_api import linalg as linalg
from adjoint.array_api import operators as _operators  # noqa: F401  puts them on Array
from adjoint.array_api.arrays import Array as Array
from adjoint.array_api.creation import arange as arange
from adjoint.array_api.creation import asarray as asarray
from adjoint.array_api.creation import empty as empty
from adjoint.array_api.creation import empty_like as empty_like
from adjoint.array_api.creation import eye as eye
from adjoint.array_api.creation import from_dlpack as from_dlpack
from adjoint.array_api.creation import full as full
from adjoint.array_api.creation import full_like as full_like
from adjoint.array_api.creation import linspace as linspace
from adjoint.array_api.creation import meshgrid as meshgrid
from adjoint.array_api.creation import ones as ones
from adjoint.array_api.creation import ones_like as ones_like
from adjoint.array_api.creation import tril as tril
from adjoint.array_api.creation import triu as triu
from adjoint.array_api.creation import zeros as zeros
from adjoint.array_api.creation import zeros_like as zeros_like
from adjoint.array_api.dtypes import KINDS as _KINDS
from adjoint.array_api.dtypes import astype as astype
from adjoint.array_api.dtypes import can_cast as can_cast
from adjoint.array_api.dtypes import finfo as finfo
from adjoint.array_api.dtypes import iinfo as iinfo
from adjoint.array_api.dtypes import isdtype as isdtype
from adjoint.array_api.dtypes import result_type as result_type
from adjoint.array_api.elementwise import FUNCTIONS as _FUNCTIONS
from adjoint.array_api.elementwise import clip as clip
from adjoint.array_api.elementwise import isin as isin
from adjoint.array_api.info import __array_namespace_info__ as __array_namespace_info__
from adjoint.array_api.manipulation import broadcast_arrays as broadcast_arrays
from adjoint.array_api.manipulation import broadcast_shapes as broadcast_shapes
from adjoint.array_api.manipulation import broadcast_to as broadcast_to
from adjoint.array_api.manipulation import concat as concat
from adjoint.array_api.manipulation import expand_dims as expand_dims
from adjoint.array_api.manipulation import flip as flip
from adjoint.array_api.manipulation import moveaxis as moveaxis
from adjoint.array_api.manipulation import permute_dims as permute_dims
from adjoint.array_api.manipulation import repeat as repeat
from adjoint.array_api.manipulation import reshape as reshape
from adjoint.array_api.manipulation import roll as roll
from adjoint.array_api.manipulation import squeeze as squeeze
from adjoint.array_api.manipulation import stack as stack
from adjoint.array_api.manipulation import take as take
from adjoint.array_api.manipulation import take_along_axis as take_along_axis
from adjoint.array_api.manipulation import tile as tile
from adjoint.array_api.manipulation import unstack as unstack
from adjoint.array_api.products import matmul as matmul
from adjoint.array_api.products import matrix_transpose as matrix_transpose
from adjoint.array_api.products import tensordot as tensordot
from adjoint.array_api.products import vecdot as vecdot
from adjoint.array_api.reductions import all as all
from adjoint.array_api.reductions import any as any
from adjoint.array_api.reductions import count_nonzero as count_nonzero
from adjoint.array_api.reductions import cumulative_prod as cumulative_prod
from adjoint.array_api.reductions import cumulative_sum as cumulative_sum
from adjoint.array_api.reductions import diff as diff
from adjoint.array_api.reductions import max as max
from adjoint.array_api.reductions import mean as mean
from adjoint.array_api.reductions import min as min
from adjoint.array_api.reductions import prod as prod
from adjoint.array_api.reductions import std as std
from adjoint.array_api.reductions import sum as sum
from adjoint.array_api.reductions import var as var
from adjoint.array_api.searching import argmax as argmax
from adjoint.array_api.searching import argmin as argmin
from adjoint.array_api.searching import argsort as argsort
from adjoint.array_api.searching import nonzero as nonzero
from adjoint.array_api.searching import searchsorted as searchsorted
from adjoint.array_api.searching import sort as sort
from adjoint.array_api.searching import unique_all as unique_all
from adjoint.array_api.searching import unique_counts as unique_counts
from adjoint.array_api.searching import unique_inverse as unique_inverse
from adjoint.array_api.searching import unique_values as unique_values
from adjoint.array_api.searching import where as where
from adjoint.engine.core.device import Device as Device

__array_api_version__ = "2024.12"
SUPPORTED_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
newaxis = None

globals().update(_FUNCTIONS)
globals().update({d.name: d for d in (*_KINDS["bool"], *_KINDS["numeric"])})


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'adjoint.array_api' has no attribute {name!r}: it has the names of the array API "
        f"standard of {__array_api_version__}. Others are in `adjoint`.",
        name=name,
    )
