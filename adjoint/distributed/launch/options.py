"""What `adjoint launch` is told: torchrun's options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from adjoint.distributed.rendezvous import DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """A job as it is to be started on this machine."""

    program: tuple[str, ...]
    processes: int = 1
    machines: int = 1
    machine: int | None = None  # which one this is; None: the order in which they come
    host: str = "127.0.0.1"
    port: int = 0
    run_id: str = "none"
    role: str = "default"
    max_restarts: int = 0
    interval: float = 0.05
    as_module: bool = False
    python: bool = True
    log_dir: str | None = None
    redirects: int = 0
    tee: int = 0


def count_of(given: str) -> int:
    """How many processes: a number, or what this machine has.

    >>> count_of("3")
    3
    """
    if given in ("cpu", "auto", "gpu"):
        from adjoint.engine.backends.array.gpu.cuda import device_count

        gpus = device_count() if given != "cpu" else 0
        if given == "gpu" and not gpus:
            raise SystemExit("adjoint launch: --nproc-per-node=gpu, but there is no CUDA device")
        return gpus or os.cpu_count() or 1
    try:
        number = int(given)
    except ValueError:
        number = 0
    if number < 1:
        raise SystemExit(
            f"adjoint launch: --nproc-per-node: expected a number, cpu, gpu or auto, got {given!r}"
        )
    return number


def machines_of(given: str) -> int:
    """How many machines: torchrun's MIN:MAX only where both are the same."""
    parts = given.split(":")
    if not all(p.isdigit() for p in parts) or len(parts) > 2 or len(set(parts)) > 1:
        raise SystemExit(
            f"adjoint launch: --nnodes: expected one number of machines, got {given!r}. A job "
            "whose size changes while it runs is not supported; restart it with another size."
        )
    return int(parts[0])


def get_args_parser() -> argparse.ArgumentParser:
    """What reads the command line; its fields have torchrun's names."""
    parser = argparse.ArgumentParser(
        prog="adjoint launch", description="Start a program in several processes."
    )

    def add(name: str, default: object = None, **how: object) -> None:
        spellings = {f"--{name}", f"--{name.replace('-', '_')}"}
        parser.add_argument(*sorted(spellings), default=default, **how)  # type: ignore[arg-type]

    add("nproc-per-node", "1", help="processes on this machine: a number, cpu, gpu or auto")
    add("nnodes", "1", help="machines")
    add("node-rank", None, type=int, help="which machine this is; the order of coming unless given")
    add("rdzv-endpoint", "", help="HOST[:PORT] where the machines meet; HOST is the first of them")
    add("rdzv-backend", "c10d", help="accepted: the machines meet in Adjoint's own store")
    add("rdzv-id", "none", help="the job's name, where several meet at one place")
    add("rdzv-conf", "", help="accepted")
    add("master-addr", None, help="the first machine, where there is no --rdzv-endpoint")
    add("master-port", None, type=int, help="its port")
    add("standalone", False, action="store_true", help="one machine and a free port")
    add("max-restarts", 0, type=int, help="how often to start anew after a process failed")
    add("monitor-interval", 0.05, type=float, help="seconds between looks at the processes")
    add("start-method", "spawn", help="accepted: processes are always started anew")
    add("role", "default", help="a name for these processes")
    add("log-dir", None, help="a folder for what processes print, by attempt and rank")
    add("local-addr", None, help="accepted")
    add("no-python", False, action="store_true", help="the program is no Python file")
    parser.add_argument("-r", "--redirects", default="0", help="to files: 1 stdout, 2 stderr, 3")
    parser.add_argument("-t", "--tee", default="0", help="to files and here: 1 stdout, 2 stderr, 3")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("training_script", metavar="program", help="the program to start")
    parser.add_argument(
        "training_script_args",
        metavar="args",
        nargs=argparse.REMAINDER,
        help="its own arguments",
    )
    return parser


def parse(argv: Sequence[str]) -> LaunchOptions:
    """Options from a command line.

    >>> parse(["--nproc-per-node=2", "train.py", "--lr", "1"]).program
    ('train.py', '--lr', '1')
    """
    return chosen(get_args_parser().parse_args(list(argv)))


def chosen(given: argparse.Namespace) -> LaunchOptions:
    """Options from the fields of `get_args_parser`, which a program may have set itself."""
    machines = machines_of(str(given.nnodes))
    host, _, port = (given.rdzv_endpoint or "").partition(":")
    host = host or given.master_addr or "127.0.0.1"
    number = int(port) if port else given.master_port
    if number is None:
        number = 0 if machines == 1 else DEFAULT_PORT
    if machines > 1 and given.standalone:
        raise SystemExit("adjoint launch: --standalone is of one machine")
    for name in ("redirects", "tee"):
        if str(getattr(given, name)) not in "0123":
            raise SystemExit(f"adjoint launch: --{name}: expected 0, 1, 2 or 3")
    return LaunchOptions(
        program=(given.training_script, *given.training_script_args),
        processes=count_of(str(given.nproc_per_node)),
        machines=machines,
        machine=None if given.node_rank is None else int(given.node_rank),
        host="127.0.0.1" if given.standalone else host,
        port=int(number),
        run_id=given.rdzv_id,
        role=given.role,
        max_restarts=given.max_restarts,
        interval=min(given.monitor_interval, 0.1),
        as_module=given.module,
        python=not given.no_python,
        log_dir=given.log_dir,
        redirects=int(given.redirects),
        tee=int(given.tee),
    )
