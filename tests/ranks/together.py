"""Several programs in one start of the processes, which takes as long as a program."""

from tests.ranks import sharding, states, tensors, training
from tests.ranks.checks import run

if __name__ == "__main__":
    run(training, sharding, states, tensors)
