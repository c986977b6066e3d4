"""`python -m torch.distributed.run`, torchrun by its module's name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from adjoint.distributed.launch import launch, parse


def main(args: Sequence[str] | None = None) -> None:
    """Start a job; the arguments are torchrun's."""
    sys.exit(launch(parse(sys.argv[1:] if args is None else args)))


if __name__ == "__main__":
    main()
