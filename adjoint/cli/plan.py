"""`adjoint plan`: which layout of a training job fits a cluster, and what a step costs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from adjoint.distributed.cost import GIB, Cluster, Workload, estimates, table
from adjoint.distributed.groups.group import get_rank
from adjoint.distributed.groups.start import init_process_group, is_initialized
from adjoint.distributed.measuring import measured_cluster
from adjoint.engine.core.arguments import Parser


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's sizes."""

    parameters: int
    layers: int
    width: int


MODELS = {
    "gpt2": Shape(124_439_808, 12, 768),
    "gpt2-medium": Shape(354_823_168, 24, 1024),
    "gpt2-large": Shape(774_030_080, 36, 1280),
    "gpt2-xl": Shape(1_557_611_200, 48, 1600),
    "llama-7b": Shape(6_738_415_616, 32, 4096),
}
# Bytes an activation of one token takes in one layer, in units of the width: the tensors a block
# of attention and a feed-forward of four times the width keep for backward.
KEPT = 34


def plan(argv: Sequence[str]) -> int:
    """Print what each layout needs and takes."""
    parser = Parser(prog="adjoint plan", description="Which layout of a job fits a cluster.")
    parser.add_argument(
        "--model", default="gpt2", choices=sorted(MODELS), help="which model is trained (gpt2)"
    )
    parser.add_argument(
        "--gpus", "--devices", type=int, default=8, dest="devices", help="how many devices (8)"
    )
    parser.add_argument("--memory", type=float, default=80.0, help="GiB of each device (80)")
    parser.add_argument(
        "--tflops", type=float, default=300.0, help="10^12 operations per second of a device (300)"
    )
    parser.add_argument(
        "--bandwidth", type=float, default=100.0, help="10^9 bytes per second of a link (100)"
    )
    parser.add_argument("--latency", type=float, default=10.0, help="microseconds of a link (10)")
    parser.add_argument("--batch", type=int, default=8, help="sequences per device (8)")
    parser.add_argument("--length", type=int, default=1024, help="tokens per sequence (1024)")
    parser.add_argument("--bytes", type=int, default=4, help="bytes of a parameter (4)")
    parser.add_argument(
        "--measure", action="store_true",
        help="measure the processes that `adjoint launch` has started, instead of estimating",
    )  # fmt: skip
    given: argparse.Namespace = parser.parse_args(list(argv))
    shape = MODELS[given.model]
    tokens = given.batch * given.length
    activations = float(tokens * shape.layers * shape.width * KEPT * given.bytes / 4)
    work = Workload(
        shape.parameters,
        tokens,
        activations,
        shape.width,
        shape.layers,
        bytes_per_parameter=given.bytes,
    )
    cluster = Cluster(
        given.devices, given.memory * GIB, given.tflops * 1e12, given.bandwidth * 1e9,
        given.latency * 1e-6,
    )  # fmt: skip
    if given.measure:
        if not is_initialized():
            init_process_group()
        cluster = measured_cluster()
        if get_rank():
            return 0
    layouts = estimates(work, cluster)
    count = cluster.devices
    print(f"{given.model}: {shape.parameters:,} parameters on {count} devices (estimated)")
    print(table(layouts))
    if not layouts[0].fits:
        print("no layout fits: more devices, a smaller --batch, or fewer --bytes per parameter")
        return 1
    return 0
