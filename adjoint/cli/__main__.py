"""`python -m adjoint.cli`, where the `adjoint` command is not on the path."""

import sys

from adjoint.cli import main

sys.exit(main())
