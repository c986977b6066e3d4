"""`python -m torch.distributed.run`, torchrun by its module's name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from adjoint.distributed.elastic.multiprocessing.errors import ChildFailedError
from adjoint.distributed.launch import chosen, launch, parse
from adjoint.distributed.launch import get_args_parser as get_args_parser


def parse_args(args: Sequence[str]) -> argparse.Namespace:
    """The fields of a command line."""
    return get_args_parser().parse_args(list(args))


def main(args: Sequence[str] | None = None) -> None:
    """Start a job; the arguments are torchrun's."""
    sys.exit(launch(parse(sys.argv[1:] if args is None else args)))


def run(args: argparse.Namespace) -> None:
    """Start the job that fields of `get_args_parser` describe; raises where a process failed."""
    status = launch(chosen(args))
    if status:
        raise ChildFailedError(str(args.training_script), status)


if __name__ == "__main__":
    main()
