"""Folders that checkpoints are written to and read from, at PyTorch's path."""

from adjoint.distributed.checkpoint.files import FileSystemReader as FileSystemReader
from adjoint.distributed.checkpoint.files import FileSystemWriter as FileSystemWriter
