"""How modules take converted and loaded tensors, where PyTorch has a switch for it.

By default a parameter stays the object it is and takes the new elements (`parameter.data = ...`).
Parameters of classes that hold tensors of their own need one of the other ways.
"""

from __future__ import annotations

_CHOSEN = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its like make new parameters in place of writing to the old ones."""
    _CHOSEN["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given last; False at first."""
    return _CHOSEN["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions and `load_state_dict` exchange parameters by `utils.swap_tensors`.

    A parameter is then the same object, and all else about it, its class included, is new. What
    is loaded goes through `Tensor.module_load`, which a class of tensors may define anew.
    """
    _CHOSEN["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was given last; False at first."""
    return _CHOSEN["swap"]
