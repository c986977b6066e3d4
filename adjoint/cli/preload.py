"""Imported by a fork server under `adjoint run`: its children answer `import torch` too."""

from adjoint.cli import torch_alias

torch_alias.install()
