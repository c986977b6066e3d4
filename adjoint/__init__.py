"""Adjoint: deep learning with PyTorch's API, one derivative per operation, readable throughout.

    import adjoint as ad              # or, to try an existing program: import adjoint as torch

Tensors and functions are here (`ad.randn`, `ad.matmul`), layers in `ad.nn`, optimizers in
`ad.optim`, function transforms in `ad.func`; `ad.compile` makes a native program of a function.
`adjoint --help` lists the commands, and docs/quickstart.md is a first tour.

The names of this module come from the table in `engine.core.operations.public`; families that few
programs need load on first use (see `adjoint.engine.assembly`).
"""

from __future__ import annotations

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from types import ModuleType as _ModuleType
from typing import Any

from adjoint.engine import assembly as _assembly
from adjoint.engine.autodiff.tape.modes import enable_grad as enable_grad
from adjoint.engine.autodiff.tape.modes import inference_mode as inference_mode
from adjoint.engine.autodiff.tape.modes import is_grad_enabled as is_grad_enabled
from adjoint.engine.autodiff.tape.modes import (
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from adjoint.engine.autodiff.tape.modes import no_grad as no_grad
from adjoint.engine.autodiff.tape.modes import set_grad_enabled as set_grad_enabled
from adjoint.engine.core.device import Device as device
from adjoint.engine.core.dtype import DType as dtype
from adjoint.engine.core.dtype import get_default_dtype as get_default_dtype
from adjoint.engine.core.dtype import set_default_dtype as set_default_dtype
from adjoint.engine.core.numeric_limits import finfo as finfo
from adjoint.engine.core.numeric_limits import iinfo as iinfo
from adjoint.engine.core.spec import Size as Size
from adjoint.engine.core.state.rng import Generator as Generator
from adjoint.engine.core.state.rng import default_generator as default_generator
from adjoint.engine.older_names import INPLACE_FUNCTIONS as _INPLACE_FUNCTIONS
from adjoint.engine.tensor.tensor import Tensor as Tensor
from adjoint.random import get_rng_state as get_rng_state
from adjoint.random import initial_seed as initial_seed
from adjoint.random import manual_seed as manual_seed
from adjoint.random import seed as seed
from adjoint.random import set_rng_state as set_rng_state

newaxis = None
__version__ = "0.1.0"

globals().update(_assembly.top_level())


def __getattr__(name: str) -> Any:
    value = _starred() if name == "__all__" else _assembly.find(name)
    globals()[name] = value
    return value


def _starred() -> list[str]:
    """What `import *` brings: every public name but modules, those that load on first use too."""
    late = _assembly.all_names().difference(_assembly.SUBMODULES, _assembly.FACADES)
    here = {name for name, value in globals().items() if not isinstance(value, _ModuleType)}
    found = here | late | {*_INPLACE_FUNCTIONS}
    return sorted(name for name in found - {"Any", "annotations"} if not name.startswith("_"))


def __dir__() -> list[str]:
    return sorted({*globals(), *_assembly.all_names()})
