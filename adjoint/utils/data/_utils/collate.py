"""Making batches, under PyTorch's address."""

import re

from adjoint.data.collate import collate as collate
from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_collate_fn_map as default_collate_fn_map
from adjoint.data.collate import default_convert as default_convert

# Types of NumPy's that hold text or objects: they have no tensor.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
