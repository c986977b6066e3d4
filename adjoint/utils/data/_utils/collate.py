"""Making batches, under PyTorch's address."""

import re

from adjoint.data.collate import _collate_arrays as collate_numpy_array_fn
from adjoint.data.collate import _collate_floats as collate_float_fn
from adjoint.data.collate import _collate_ints as collate_int_fn
from adjoint.data.collate import _collate_numpy_scalars as collate_numpy_scalar_fn
from adjoint.data.collate import _collate_tensors as collate_tensor_fn
from adjoint.data.collate import _collate_text as collate_str_fn
from adjoint.data.collate import collate as collate
from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_collate_fn_map as default_collate_fn_map
from adjoint.data.collate import default_convert as default_convert

# Types of NumPy's that hold text or objects: they have no tensor.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
    "np_str_obj_array_pattern",
]
