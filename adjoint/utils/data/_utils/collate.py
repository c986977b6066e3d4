"""Making batches, under PyTorch's address."""

from adjoint.data.collate import collate as collate
from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_collate_fn_map as default_collate_fn_map
from adjoint.data.collate import default_convert as default_convert
