"""`python -m adjoint` is the `adjoint` command."""

import sys

from adjoint.cli import main

sys.exit(main())
