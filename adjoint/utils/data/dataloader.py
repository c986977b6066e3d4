"""The loader, at PyTorch's path."""

from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_convert as default_convert
from adjoint.data.loader import DataLoader as DataLoader
from adjoint.data.worker_info import get_worker_info as get_worker_info
