"""A convolutional network on handwritten digits, with the Trainer: what `make train` runs.

python examples/digits_cnn.py [--quick]
"""

from __future__ import annotations

import sys

from adjoint.training.recipes import digits

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--quick" in arguments:
        arguments = ["--epochs", "2", *(a for a in arguments if a != "--quick")]
    sys.exit(digits.main(arguments))
