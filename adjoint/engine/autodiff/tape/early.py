"""Gradients that are wanted before backward has ended."""

from __future__ import annotations

import weakref
from typing import Any

# Leaves, by id, whose gradient is to arrive when it is whole rather than when all are: hooks see it
# then, and what they do with it (a step, sending it to other processes) goes on beside the rest.
EARLY_LEAVES: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# Nodes whose hooks are to find the gradients of leaves where all that leads there has run.
NODES_AFTER_LEAVES: weakref.WeakSet[Any] = weakref.WeakSet()


def wait_for_leaves(node: Any) -> None:
    """Have a node's hooks find the gradients of leaves where all that leads there has run."""
    NODES_AFTER_LEAVES.add(node)
