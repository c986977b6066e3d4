"""`torch.jit._state`: whether scripting is on, and the classes it met."""

from __future__ import annotations

import os


class EnabledProxy:
    """Whether TorchScript is on, as `PYTORCH_JIT` says; it changes nothing here."""

    def __init__(self) -> None:
        self.enabled = self.parse_env("PYTORCH_JIT", True, "> Using PyTorch JIT", "> JIT disabled")

    def parse_env(self, name: str, default: bool, true_message: str, false_message: str) -> bool:
        """What a variable of the environment says: "1", "1v" (and a message), "0", "0v"."""
        told = {
            "": (default, ""),
            "1": (True, ""),
            "1v": (True, true_message),
            "0": (False, ""),
            "0v": (False, false_message),
        }
        value = os.environ.get(name, "")
        if value not in told:
            raise ValueError(f"Unknown setting of {name}. Try using 0 or 1.")
        setting, message = told[value]
        if message:
            print(message)
        return setting

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()
_script_classes: dict[type, object] = {}  # empty: a scripted class is the class itself
_name_to_pyclass: dict[str, type] = {}


def enable() -> None:
    """Note that TorchScript is on."""
    _enabled.enabled = True


def disable() -> None:
    """Note that TorchScript is off."""
    _enabled.enabled = False


def _get_script_class(python_class: type) -> object | None:
    """What TorchScript made of a class: nothing."""
    return _script_classes.get(python_class)


def _get_python_class(qualified_name: str) -> type | None:
    """The class behind a name of TorchScript's: there are none."""
    return _name_to_pyclass.get(qualified_name)


def _clear_class_state() -> None:
    """Forget classes that were scripted."""
    _script_classes.clear()
    _name_to_pyclass.clear()
