"""Optimizers with options: the rows that every test of all optimizers goes through."""

from __future__ import annotations

from typing import Any

import adjoint as ad

optim = ad.optim
Options = dict[str, Any]
Row = tuple[Any, Options]
# Every option of every optimizer is set in at least one row: `test_optim.py` looks.
ROWS: list[Row] = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    (optim.SGD, {"lr": 0.1, "foreach": True}),
    (optim.Adam, {"lr": 0.1}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "eps": 1e-6}),
    (optim.Adam, {"lr": ad.tensor(0.1)}),
    (optim.Adam, {"lr": ad.tensor(0.1), "betas": (ad.tensor(0.8), ad.tensor(0.99))}),
    (optim.Adam, {"betas": (0.5, 0.9), "maximize": True, "capturable": True, "foreach": True}),
    (optim.Adam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.AdamW, {"lr": 0.1}),
    (optim.AdamW, {"lr": 0.1, "weight_decay": 0.2, "amsgrad": True, "eps": 1e-6}),
    (optim.AdamW, {"betas": (0.5, 0.9), "maximize": True, "capturable": True}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
    (optim.Adagrad, {"weight_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-6}),
    (optim.Adagrad, {"maximize": True}),
    (optim.Adadelta, {}),
    (optim.Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-5, "weight_decay": 0.1}),
    (optim.Adadelta, {"maximize": True, "capturable": True}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.Adamax, {"betas": (0.5, 0.9), "eps": 1e-6, "weight_decay": 0.1}),
    (optim.Adamax, {"maximize": True, "capturable": True}),
    (optim.ASGD, {"lr": 0.1, "t0": 2}),
    (optim.ASGD, {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "weight_decay": 0.1, "t0": 1}),
    (optim.ASGD, {"maximize": True, "capturable": True}),
    (optim.NAdam, {"lr": 0.1}),
    (optim.NAdam, {"betas": (0.5, 0.9), "eps": 1e-6, "weight_decay": 0.1, "momentum_decay": 0.01}),
    (optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.NAdam, {"maximize": True, "capturable": True}),
    (optim.RAdam, {"lr": 0.1, "betas": (0.5, 0.6)}),
    (optim.RAdam, {"lr": 0.1, "eps": 1e-6, "weight_decay": 0.1}),
    (optim.RAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.9, 0.7)}),
    (optim.RAdam, {"maximize": True, "capturable": True}),
    (optim.RMSprop, {"lr": 0.1}),
    (optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.9}),
    (optim.RMSprop, {"alpha": 0.5, "eps": 1e-6, "weight_decay": 0.1}),
    (optim.RMSprop, {"maximize": True, "capturable": True}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.Rprop, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.05)}),
    (optim.Rprop, {"maximize": True, "capturable": True}),
    (optim.Adafactor, {"lr": 0.1}),
    (optim.Adafactor, {"beta2_decay": -0.5, "eps": (1e-6, 1e-2), "d": 2.0, "weight_decay": 0.1}),
    (optim.Adafactor, {"maximize": True}),
    (optim.Muon, {"lr": 0.1}),
    (optim.Muon, {"weight_decay": 0.0, "momentum": 0.5, "nesterov": False}),
    (optim.Muon, {"ns_coefficients": (3.0, -4.0, 2.0), "eps": 1e-5, "ns_steps": 3}),
    (optim.Muon, {"adjust_lr_fn": "match_rms_adamw"}),
    (optim.Lion, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.Lion, {"betas": (0.5, 0.9), "maximize": True, "capturable": True}),
    (optim.LAMB, {"lr": 0.1}),
    (optim.LAMB, {"betas": (0.5, 0.9), "eps": 1e-5, "weight_decay": 0.1}),
    (optim.LAMB, {"maximize": True, "capturable": True}),
]
# Not among the rows: the base, and what is given closures or sparse gradients.
APART = {"Optimizer", "LBFGS", "SparseAdam"}


def first_rows() -> dict[str, Row]:
    """One row for each optimizer, by its name."""
    found: dict[str, Row] = {}
    for row in ROWS:
        found.setdefault(row[0].__name__, row)
    return found


def ident(row: Row) -> str:
    """A row's name in the list of tests."""
    kind, options = row
    return "-".join([kind.__name__, *options])
