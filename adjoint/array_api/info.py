"""What the namespace can do, as the standard has programs ask."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint.array_api.dtypes import KINDS, isdtype
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType


class Info:
    """Capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """What is optional and present."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where arrays are made."""
        return ad.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of Python's numbers."""
        real = dt.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": dt.int64,
            "indexing": dt.int64,
        }

    def devices(self) -> list[Any]:
        """Where arrays can be."""
        devices = [ad.device("cpu")]
        if ad.cuda.is_available():
            devices += [ad.device("cuda", index) for index in range(ad.cuda.device_count())]
        return devices

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes by name, of a kind or of any."""
        every = {d.name: d for d in (*KINDS["bool"], *KINDS["numeric"])}
        return {name: d for name, d in every.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """What the namespace can do."""
    return Info()
