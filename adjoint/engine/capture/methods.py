"""Where an object keeps its compiled methods."""

from __future__ import annotations

from typing import Any


class Methods(dict[Any, Any]):
    """An object's compiled methods; copies of the object start without.

    `copy.copy` and `other.__dict__.update(...)` put this very dict into another object, whose
    methods these are not: so it knows whose they are.
    """

    __slots__ = ("owner",)

    def __init__(self, owner: Any = None) -> None:
        super().__init__()
        self.owner = owner

    def __reduce__(self) -> Any:
        return (Methods, ())

    def __deepcopy__(self, memo: Any = None) -> Methods:
        return Methods()

    __copy__ = __deepcopy__
