"""Devices and libraries that PyTorch knows and Adjoint has none of: programs may ask, and are told.

`facade` makes the module a program asks from each entry of the table.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

from adjoint.engine.core.switches import SwitchModule

# The module's path within the package, and what it would be for.
ABSENT = {
    "mps": "Metal devices",
    "mtia": "MTIA devices",
    "xpu": "Intel GPUs",
    "backends.cusparselt": "cuSPARSELt",
    "backends.kleidiai": "KleidiAI",
    "backends.mkl": "MKL",
    "backends.mkldnn": "oneDNN",
    "backends.mps": "Metal",
    "backends.openmp": "OpenMP",
    "backends.xeon": "Intel's launcher",
    "backends.xnnpack": "XNNPACK",
}


def is_available() -> bool:
    """Never."""
    return False


def is_built() -> bool:
    """Never."""
    return False


def device_count() -> int:
    """None."""
    return 0


class AbsentModule(SwitchModule):
    """A module that says that what it is for is not there."""


def facade(path: str) -> AbsentModule:
    """The module for an entry of the table, importable under its path.

    >>> facade("xpu").is_available(), facade("xpu").device_count()
    (False, 0)
    """
    name = f"adjoint.{path}"
    module = sys.modules.get(name)
    if not isinstance(module, AbsentModule):
        module = AbsentModule(name, f"{ABSENT[path]}: not used by Adjoint; programs may ask.")
        module.__spec__ = ModuleSpec(name, None)
        for answer in (is_available, is_built if "." in path else device_count):
            module.__dict__[answer.__name__] = answer
        sys.modules[name] = module
    return module
