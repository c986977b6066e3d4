"""Early stopping."""

from __future__ import annotations

import math


class EarlyStopping:
    """Says when a value has not improved for more than `patience` epochs.

    Args:
        monitor: the name of the value, such as "validation_loss".
        patience: epochs without improvement that are endured.
        mode: "min" or "max", whichever is better.
        min_delta: the least change that counts.

    Example:
        >>> stop = EarlyStopping(patience=1)
        >>> [stop.update({"validation_loss": v}) for v in (3.0, 2.0, 2.5, 2.4)]
        [False, False, False, True]
    """

    def __init__(
        self,
        monitor: str = "validation_loss",
        patience: int = 3,
        mode: str = "min",
        min_delta: float = 0.0,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"EarlyStopping: mode must be 'min' or 'max', got {mode!r}")
        self.monitor, self.patience, self.mode, self.min_delta = monitor, patience, mode, min_delta
        self.best = math.inf if mode == "min" else -math.inf
        self.waited = 0

    def update(self, values: dict[str, float]) -> bool:
        """Take in an epoch's values; True if it is time to stop."""
        if self.monitor not in values:
            raise KeyError(
                f"EarlyStopping: there is no value {self.monitor!r} among {sorted(values)}"
            )
        value = values[self.monitor]
        gain = self.best - value if self.mode == "min" else value - self.best
        if gain > self.min_delta:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited > self.patience

    def state_dict(self) -> dict[str, float]:
        """Best value and epochs waited."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Put them back."""
        self.best, self.waited = state["best"], int(state["waited"])
