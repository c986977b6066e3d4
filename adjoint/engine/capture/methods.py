"""Where an object keeps its compiled methods."""

from __future__ import annotations

from typing import Any


class Methods(dict[Any, Any]):
    """An object's compiled methods; copies of the object start without."""

    def __reduce__(self) -> Any:
        return (Methods, ())

    def __deepcopy__(self, memo: Any = None) -> Methods:
        return Methods()

    __copy__ = __deepcopy__
