"""`python -m torch.distributed.launch`, as older programs are started."""

import sys

from adjoint.distributed.launch import launch, parse

if __name__ == "__main__":
    sys.exit(launch(parse(sys.argv[1:])))
