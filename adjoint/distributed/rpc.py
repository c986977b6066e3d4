"""Remote procedure calls, which are not here: using them says so."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"distributed.rpc.{name}: remote procedure calls are not supported. Send tensors or "
            "objects with distributed.send and send_object_list."
        )

    return refuse
