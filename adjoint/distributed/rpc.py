"""Remote procedure calls, which are not here: using them says so."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.state.loading import lacking as _lacking

NAMES = (
    "init_rpc",
    "shutdown",
    "rpc_sync",
    "rpc_async",
    "remote",
    "get_worker_info",
    "RRef",
    "WorkerInfo",
    "BackendType",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
)


def is_available() -> bool:
    """Whether remote procedure calls can be made: no."""
    return False


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise _lacking(__name__, name)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"distributed.rpc.{name}: remote procedure calls are not supported. Send tensors or "
            "objects with distributed.send and send_object_list."
        )

    return refuse
