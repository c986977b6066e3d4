"""Imported by a fork server under `adjoint run`: its children answer `import torch` too."""

import os

from adjoint.cli import torch_alias

if torch_alias.MARK in os.environ:  # else something merely imports every module there is
    torch_alias.install()
