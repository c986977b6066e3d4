"""Starting a function, or a command, in several processes, and having their results."""

from __future__ import annotations

import os
import pickle
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adjoint.distributed.elastic.multiprocessing.errors import ChildFailedError
from adjoint.distributed.launch.agent import launch
from adjoint.distributed.launch.options import LaunchOptions
from adjoint.distributed.rendezvous import SERVED
from adjoint.distributed.store.secret import VARIABLE
from adjoint.distributed.store.tcp import TCPStore
from adjoint.multiprocessing.spawn import ProcessException, start_processes


@dataclass(slots=True)
class LaunchConfig:
    """A job on this machine, by torchrun's names; those below `start_method` are accepted."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    logs_specs: Any = None


class elastic_launch:
    """What starts an entry point; calling it runs it to its end.

    Args:
        config: how many processes, and how often they are started anew.
        entrypoint: a function, or the name of a command.

    Returns:
        On the call: what the function returned, by rank. A process that fails is started anew
        with the others, `max_restarts` times; then `ChildFailedError` is raised.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self.config, self.entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self.config, self.entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint: Any, args: list[Any]) -> dict[int, Any]:
    """Run a job to its end; what its processes returned, by rank."""
    if (config.min_nodes, config.max_nodes) != (1, 1):
        raise NotImplementedError(
            f"launch_agent: jobs of {config.min_nodes} to {config.max_nodes} machines are started "
            "by `adjoint launch` on each of them"
        )
    if entrypoint is None:
        raise ValueError("launch_agent: expected a function or a command, received None")
    if isinstance(entrypoint, str):
        return _command(config, (entrypoint, *map(str, args)))
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(config.max_restarts + 1):
            try:
                return _attempt(config, entrypoint, tuple(args), attempt, folder)
            except ProcessException as error:
                if attempt == config.max_restarts:
                    name = getattr(entrypoint, "__qualname__", str(entrypoint))
                    raise ChildFailedError(name, f"{error.error_index}: {error}") from error
    raise AssertionError("a job without an attempt")


def _command(config: LaunchConfig, program: tuple[str, ...]) -> dict[int, Any]:
    options = LaunchOptions(
        program, config.nproc_per_node, run_id=config.run_id or "none", role=config.role,
        max_restarts=config.max_restarts, python=False,
    )  # fmt: skip
    status = launch(options)
    if status:
        raise ChildFailedError(program[0], status)
    return dict.fromkeys(range(config.nproc_per_node))


def _attempt(
    config: LaunchConfig, entrypoint: Callable[..., Any], args: tuple[Any, ...], attempt: int,
    folder: str,
) -> dict[int, Any]:  # fmt: skip
    secret = secrets.token_hex(32)
    store = TCPStore("127.0.0.1", 0, is_master=True, secret=secret.encode())
    count = str(config.nproc_per_node)
    environment = {
        "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "ROLE_WORLD_SIZE": count,
        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": config.role,
        "MASTER_ADDR": store.host, "MASTER_PORT": str(store.port), SERVED: "1", VARIABLE: secret,
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
        "TORCHELASTIC_RUN_ID": config.run_id or "none",
    }  # fmt: skip
    try:
        start_processes(
            _call, (entrypoint, args, environment, folder), config.nproc_per_node,
            start_method=config.start_method,
        )  # fmt: skip
    finally:
        store.close()
    files = [Path(folder) / str(rank) for rank in range(config.nproc_per_node)]
    return {rank: pickle.loads(file.read_bytes()) for rank, file in enumerate(files)}


def _call(
    rank: int, entrypoint: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str],
    folder: str,
) -> None:  # fmt: skip
    os.environ.update(environment)
    os.environ.update(dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank)))
    result = entrypoint(*args)
    (Path(folder) / str(rank)).write_bytes(pickle.dumps(result))
