"""What `adjoint launch` is told: torchrun's options."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.distributed.rendezvous import DEFAULT_PORT
from adjoint.engine.core.arguments import Parser


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
    redirects: Mapping[int, int] = field(default_factory=dict)  # by rank on this machine
    tee: Mapping[int, int] = field(default_factory=dict)
    shown: frozenset[int] | None = None  # whose output comes here; None: everybody's
    one_gpu_each: bool = False
    meeting: float = 600.0  # seconds machines wait for one another
    mercy: float = 5.0  # seconds a process has to end before it is killed
    stops: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def refuse(text: str) -> SystemExit:
    """What ends the launcher with one line."""
    return SystemExit(f"adjoint launch: {text}")


def count_of(given: str) -> int:
    """How many processes: a number, or what this machine has.

    >>> count_of("3")
    3
    """
    if given in ("cpu", "auto", "gpu"):
        from adjoint.engine.backends.array.gpu.cuda import device_count

        gpus = device_count() if given != "cpu" else 0
        if given == "gpu" and not gpus:
            raise refuse("--nproc-per-node=gpu, but there is no CUDA device")
        return gpus or os.cpu_count() or 1
    try:
        number = int(given)
    except ValueError:
        number = 0
    if number < 1:
        raise refuse(f"--nproc-per-node: expected a number, cpu, gpu or auto, got {given!r}")
    return number


def machines_of(given: str) -> int:
    """How many machines: torchrun's MIN:MAX only where both are the same."""
    parts = given.split(":")
    if not all(p.isdigit() for p in parts) or len(parts) > 2 or len(set(parts)) > 1:
        raise refuse(
            f"--nnodes: expected one number of machines, got {given!r}. A job "
            "whose size changes while it runs is not supported; restart it with another size."
        )
    if not int(parts[0]):
        raise refuse(f"--nnodes: expected at least one machine, got {given!r}")
    return int(parts[0])


def place_of(endpoint: str) -> tuple[str, int | None]:
    """HOST[:PORT]; an address with colons stands in brackets.

    >>> place_of("[::1]:29500"), place_of("node1")
    (('::1', 29500), ('node1', None))
    """
    if endpoint.startswith("["):
        host, _, rest = endpoint[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = endpoint.partition(":")
    if port and not (port.isdigit() and int(port) < 1 << 16):
        raise refuse(f"--rdzv-endpoint: expected HOST[:PORT], got {endpoint!r}")
    return host, int(port) if port else None


def by_rank(option: str, given: str, processes: int) -> dict[int, int]:
    """Which outputs of which processes: one digit for all of them, or RANK:DIGIT,...

    >>> by_rank("tee", "3", 2), by_rank("tee", "0:1,1:2", 2)
    ({0: 3, 1: 3}, {0: 1, 1: 2})
    """
    digits = ("0", "1", "2", "3")
    if given in digits:
        return dict.fromkeys(range(processes), int(given))
    pairs = [pair.partition(":")[::2] for pair in given.split(",")]
    if not all(rank.isdigit() and digit in digits for rank, digit in pairs):
        raise refuse(f"--{option}: expected 0, 1, 2, 3, or RANK:DIGIT,... got {given!r}")
    return {int(rank): int(digit) for rank, digit in pairs}


def settings_of(given: str) -> dict[str, str]:
    """What --rdzv-conf says: NAME=VALUE,..."""
    pairs = [pair.partition("=") for pair in given.split(",") if pair]
    if not all(equals for _, equals, _ in pairs):
        raise refuse(f"--rdzv-conf: expected NAME=VALUE,... got {given!r}")
    return {name.strip(): value for name, _, value in pairs}


def seconds_of(option: str, given: Any) -> float:
    """A time to wait."""
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise refuse(f"{option}: expected seconds, got {given!r}")
    return seconds


def ranks_of(given: str) -> frozenset[int] | None:
    """Ranks with commas between them; None if there are none."""
    if not given:
        return None
    parts = given.split(",")
    if not all(part.isdigit() for part in parts):
        raise refuse(f"--local-ranks-filter: expected ranks, as in 0,2, got {given!r}")
    return frozenset(int(part) for part in parts)


def signals_of(given: str) -> tuple[signal.Signals, ...]:
    """Signals by their names, with commas between them."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in signal.Signals.__members__]
    if unknown:
        raise refuse(f"--signals-to-handle: there is no signal {unknown[0]!r}")
    return tuple(signal.Signals[name] for name in names)


def get_args_parser() -> argparse.ArgumentParser:
    """What reads the command line; its fields have torchrun's names."""
    parser = Parser(prog="adjoint launch", description="Start a program in several processes.")

    def add(name: str, default: Any = None, *short: str, **how: Any) -> None:
        field_name = name.replace("-", "_")
        spellings = {f"--{name}", f"--{field_name}", *short}
        said = os.environ.get(f"PET_{field_name.upper()}")  # torchrun's names for defaults
        if said is not None:
            default = said not in ("", "0") if how.get("action") == "store_true" else said
        parser.add_argument(*sorted(spellings), default=default, **how)

    add("nproc-per-node", "1", help="processes on this machine: a number, cpu, gpu or auto")
    add("nnodes", "1", help="machines")
    add("node-rank", None, type=int, help="which machine this is; the order of coming unless given")
    add("rdzv-endpoint", "", help="HOST[:PORT] where the machines meet; HOST is the first of them")
    add("rdzv-backend", "c10d", help="c10d or static: the machines meet in Adjoint's own store")
    add("rdzv-id", "none", help="the job's name, where several meet at one place")
    add("rdzv-conf", "", help="join_timeout=SECONDS that machines wait for one another")
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
    add("run-path", False, action="store_true", help="accepted: programs always run so")
    add("redirects", "0", "-r", help="to files: 1 stdout, 2 stderr, 3 both; or RANK:DIGIT,...")
    add("tee", "0", "-t", help="to files and here: 1 stdout, 2 stderr, 3; or RANK:DIGIT,...")
    add("local-ranks-filter", "", help="show the output of these ranks of this machine only")
    add("module", False, "-m", action="store_true", help="the program is a module")
    add("virtual-local-rank", False, action="store_true", help="each process sees its GPU only")
    add("signals-to-handle", "SIGINT,SIGTERM,SIGHUP,SIGQUIT", help="signals that end the job")
    add("shutdown-timeout", None, help="seconds processes have to end before they are killed")
    add("event-log-handler", "null", help="accepted: there are no events")
    for name in UNSUPPORTED:
        add(name, None, help="not supported")
    parser.add_argument("training_script", metavar="program", help="the program to start")
    parser.add_argument(
        "training_script_args",
        metavar="args",
        nargs=argparse.REMAINDER,
        help="its own arguments",
    )
    return parser


UNSUPPORTED = ("numa-binding", "logs-specs", "duplicate-stdout-filters", "duplicate-stderr-filters")


def parse(argv: Sequence[str]) -> LaunchOptions:
    """Options from a command line.

    >>> parse(["--nproc-per-node=2", "train.py", "--lr", "1"]).program
    ('train.py', '--lr', '1')
    """
    return chosen(get_args_parser().parse_args(list(argv)))


def chosen(given: argparse.Namespace) -> LaunchOptions:
    """Options from the fields of `get_args_parser`, which a program may have set itself."""
    machines, processes = machines_of(str(given.nnodes)), count_of(str(given.nproc_per_node))
    host, port = place_of(given.rdzv_endpoint or "")
    if given.standalone:
        if machines > 1:
            raise refuse("--standalone is of one machine")
        host, port = "127.0.0.1", 0
    if port is None:
        port = given.master_port
    for name in UNSUPPORTED:
        if getattr(given, name.replace("-", "_"), None):
            raise refuse(f"--{name} is not supported")
    if given.rdzv_backend not in ("c10d", "static", ""):
        raise refuse(
            f"--rdzv-backend: {given.rdzv_backend!r} is not supported; c10d needs no server but "
            "the first machine"
        )
    machine = None if given.node_rank is None else int(given.node_rank)
    if machine is not None and not 0 <= machine < machines:
        raise refuse(f"--node-rank: expected 0 to {machines - 1} for {machines}, got {machine}")
    if int(given.max_restarts) < 0:
        raise refuse(f"--max-restarts: expected 0 or more, got {given.max_restarts}")
    conf = settings_of(given.rdzv_conf or "")
    meeting = conf.get("join_timeout", conf.get("timeout", 600.0))
    return LaunchOptions(
        program=(given.training_script, *given.training_script_args),
        processes=processes,
        machines=machines,
        machine=machine,
        host=host or given.master_addr or "127.0.0.1",
        port=int((0 if machines == 1 else DEFAULT_PORT) if port is None else port),
        run_id=given.rdzv_id,
        role=given.role,
        max_restarts=int(given.max_restarts),
        interval=min(seconds_of("--monitor-interval", given.monitor_interval), 0.1),
        as_module=given.module,
        python=not given.no_python,
        log_dir=given.log_dir,
        redirects=by_rank("redirects", str(given.redirects), processes),
        tee=by_rank("tee", str(given.tee), processes),
        shown=ranks_of(given.local_ranks_filter),
        one_gpu_each=given.virtual_local_rank,
        meeting=seconds_of("--rdzv-conf join_timeout", meeting),
        mercy=seconds_of("--shutdown-timeout", given.shutdown_timeout or 5.0),
        stops=signals_of(given.signals_to_handle),
    )
