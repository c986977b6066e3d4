"""Devices and libraries that PyTorch knows and Adjoint has none of: programs may ask, and are told.

`facade` makes the module a program asks from each entry of the table.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

from adjoint.engine.core.state.switches import SwitchModule

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
    "backends.nnpack": "NNPACK",
    "backends.openmp": "OpenMP",
    "backends.xeon": "Intel's launcher",
    "backends.xnnpack": "XNNPACK",
}
# What each answers: of libraries, and of devices.
BACKEND_ANSWERS = "is_available is_built"
METAL_ANSWERS = "is_macos_or_newer is_macos13_or_newer"
DEVICE_ANSWERS = "is_available device_count empty_cache manual_seed manual_seed_all"


def is_available() -> bool:
    """Never."""
    return False


def is_built() -> bool:
    """Never."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Never: there is no Metal."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Never: there is no Metal."""
    return False


def device_count() -> int:
    """None."""
    return 0


def empty_cache() -> None:
    """Nothing: no memory is kept there."""


def manual_seed(seed: int) -> None:
    """Nothing: no numbers are drawn there."""


manual_seed_all = manual_seed


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
        answers = BACKEND_ANSWERS if "." in path else DEVICE_ANSWERS
        if path == "backends.mps":
            answers = f"{answers} {METAL_ANSWERS}"
        module.__dict__.update({name: globals()[name] for name in answers.split()})
        sys.modules[name] = module
    return module
