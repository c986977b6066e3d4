"""Parameters after steps of optimizers, their state, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tests.recorded import Program, refusal

Options = Callable[[Any], dict[str, Any]]  # of a library


def options(**given: Any) -> Options:
    return lambda lib: dict(given)


OPTIONS: dict[str, list[Options]] = {
    "SGD": [
        options(),
        options(lr=0.05, momentum=0.9),
        options(lr=0.05, momentum=0.9, dampening=0.3),
        options(lr=0.05, momentum=0.9, nesterov=True),
        options(lr=0.05, weight_decay=0.2),
        options(lr=0.05, momentum=0.7, weight_decay=0.2, nesterov=True, maximize=True),
    ],
    "Adam": [
        options(),
        options(lr=0.05, betas=(0.7, 0.95), eps=1e-3),
        options(lr=0.05, weight_decay=0.2),
        options(lr=0.05, amsgrad=True),
        options(lr=0.05, amsgrad=True, maximize=True, weight_decay=0.1),
        options(lr=0.05, weight_decay=0.2, decoupled_weight_decay=True),
    ],
    "AdamW": [
        options(),
        options(lr=0.05, betas=(0.7, 0.95), weight_decay=0.3),
        options(lr=0.05, amsgrad=True, eps=1e-2),
        options(lr=0.05, maximize=True),
    ],
    "NAdam": [
        options(),
        options(lr=0.05, weight_decay=0.2, momentum_decay=0.01),
        options(lr=0.05, weight_decay=0.2, decoupled_weight_decay=True, betas=(0.8, 0.9)),
        options(lr=0.05, maximize=True, eps=1e-2),
    ],
    "RAdam": [
        options(),
        options(lr=0.05, betas=(0.8, 0.9)),
        options(lr=0.05, weight_decay=0.2),
        options(lr=0.05, weight_decay=0.2, decoupled_weight_decay=True, maximize=True, eps=1e-2),
    ],
    "Adamax": [options(), options(lr=0.05, betas=(0.7, 0.9), weight_decay=0.2, eps=1e-2, maximize=True)],
    "Adagrad": [
        options(),
        options(lr=0.1, lr_decay=0.3, initial_accumulator_value=0.5, eps=1e-2),
        options(lr=0.1, weight_decay=0.2, maximize=True),
    ],
    "Adadelta": [options(), options(lr=0.5, rho=0.7, eps=1e-2, weight_decay=0.2), options(maximize=True)],
    "RMSprop": [
        options(),
        options(lr=0.05, alpha=0.8, eps=1e-2, weight_decay=0.2),
        options(lr=0.05, momentum=0.6),
        options(lr=0.05, centered=True),
        options(lr=0.05, centered=True, momentum=0.6, maximize=True),
    ],
    "Rprop": [options(), options(lr=0.05, etas=(0.4, 1.5), step_sizes=(0.001, 0.1)), options(maximize=True)],
    "ASGD": [
        options(),
        options(lr=0.1, lambd=0.1, alpha=0.6, t0=3),
        options(lr=0.1, weight_decay=0.2, maximize=True, t0=2),
    ],
    "Adafactor": [
        options(),
        options(lr=0.1, beta2_decay=-0.5, eps=(1e-8, 1e-2), d=1.5, weight_decay=0.2),
        options(lr=0.1, maximize=True),
    ],
}  # fmt: skip
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def start(lib: Any) -> list[Any]:
    shapes = ((2, 3), (3, 2))
    grown = [
        lib.arange(6, dtype=lib.float64).mul(1.7 + k).sin().reshape(s) for k, s in enumerate(shapes)
    ]
    return [p.requires_grad_() for p in grown]


def loss_of(lib: Any, params: Sequence[Any], step: int) -> Any:
    x = lib.arange(8, dtype=lib.float64).add(step).mul(0.9).cos().reshape(4, 2)
    return ((x @ params[0]).tanh() @ params[1] - 0.5).pow(2).mean()


def state_of(optimizer: Any) -> list[dict[str, Any]]:
    return [dict(sorted(held.items())) for held in optimizer.state.values()]


def trained(lib: Any, kind: str, given: dict[str, Any], steps: int = 9) -> list[Any]:
    params = start(lib)
    optimizer = getattr(lib.optim, kind)(params, **given)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(lib, params, step).backward()
        optimizer.step()
        if step in (0, 1, 6, steps - 1):
            found.append([p.detach().clone() for p in params])
    return [found, state_of(optimizer)]


def of_rows(lib: Any) -> list[Any]:
    """Rows of a table, some of which have no gradient in a step."""
    found = []
    for given in ({}, {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-2}, {"maximize": True}):
        table = lib.arange(12, dtype=lib.float64).sin().reshape(6, 2).requires_grad_()
        optimizer = lib.optim.SparseAdam([table], **given)
        for rows in ([0, 3, 3], [1, 3], [5]):
            optimizer.zero_grad()
            used = lib.nn.functional.embedding(lib.tensor(rows), table, sparse=True)
            used.pow(2).mul(used.exp()).sum().backward()
            optimizer.step()
        found.append([table.detach().clone(), state_of(optimizer)])
    return found


def muon(lib: Any) -> list[Any]:
    found = []
    for given in ({}, {"lr": 0.1, "momentum": 0.7, "nesterov": False, "weight_decay": 0.3}):
        for adjusted in ("original", "match_rms_adamw"):
            params = [p.detach().float().requires_grad_() for p in start(lib)]
            optimizer = lib.optim.Muon(params, adjust_lr_fn=adjusted, **given)
            for step in range(3):
                optimizer.zero_grad()
                loss_of(lib, [p.double() for p in params], step).backward()
                optimizer.step()
            found.append([p.detach().clone() for p in params])
    return found


def rosenbrock(lib: Any, given: dict[str, Any], start: tuple[float, ...]) -> list[Any]:
    """Losses on the way down a valley, how often they were asked for, and where it ends."""
    x = lib.tensor(start, dtype=lib.float64).requires_grad_()
    optimizer = lib.optim.LBFGS([x], **given)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss

    found = [[optimizer.step(closure), x.detach().clone()] for _ in range(4)]
    held = state_of(optimizer)[0]
    return [found, held["func_evals"], held["n_iter"], len(held.get("old_dirs", ()))]


LINES: dict[str, dict[str, Any]] = {
    "default": {"lr": 0.05},
    "wolfe": {"line_search_fn": "strong_wolfe"},
    "wolfe little": {"line_search_fn": "strong_wolfe", "max_iter": 3, "history_size": 2},
    "wolfe at a rate": {"line_search_fn": "strong_wolfe", "lr": 0.3, "max_iter": 6},
    "wolfe far": {"line_search_fn": "strong_wolfe", "lr": 30.0, "max_iter": 5},
    "few calls": {"line_search_fn": "strong_wolfe", "max_iter": 10, "max_eval": 7},
    "roughly": {"lr": 0.01, "tolerance_grad": 1.0, "tolerance_change": 1e-2},
    "short history": {"lr": 0.05, "history_size": 2, "max_iter": 8},
}
STARTS = {"near": (1.2, 1.2), "far": (-1.2, 1.0, 0.5), "at": (1.0, 1.0), "steep": (-3.0, -4.0)}


def by_groups(lib: Any) -> list[Any]:
    """Groups of their own options, one added late; a closure; gradients that are missing."""
    first, second = start(lib)
    third = lib.ones(2, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.SGD(
        [{"params": [first], "lr": 0.5}, {"params": [second], "momentum": 0.5}], lr=0.1
    )
    found = []
    for step in range(4):
        if step == 2:
            optimizer.add_param_group({"params": [third], "weight_decay": 0.1, "lr": 0.3})

        def closure(step: int = step) -> Any:
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss = loss_of(lib, [first, second], step) + (third.sum() if step == 3 else 0)
            loss.backward()
            return loss

        found.append(
            [optimizer.step(closure), *(p.detach().clone() for p in (first, second, third))]
        )
    held = optimizer.state_dict()
    return [
        found,
        [sorted(g) for g in held["param_groups"]],
        [g["params"] for g in held["param_groups"]],
    ]


def going_on(lib: Any, kind: str, given: dict[str, Any]) -> list[Any]:
    """Another optimizer goes on from a state dict."""
    params = start(lib)
    optimizer = getattr(lib.optim, kind)(params, **given)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(lib, params, step).backward()
        optimizer.step()
    others = [p.detach().clone().requires_grad_() for p in params]
    again = getattr(lib.optim, kind)(others, lr=7.0)
    again.load_state_dict(optimizer.state_dict())
    for step in range(3, 6):
        again.zero_grad()
        loss_of(lib, others, step).backward()
        again.step()
    return [others, [g["lr"] for g in again.param_groups]]


def of_complex_numbers(lib: Any, kind: str) -> Any:
    p = lib.complex(
        *(x.detach() for x in (start(lib)[0], start(lib)[1].reshape(2, 3)))
    ).requires_grad_()
    optimizer = getattr(lib.optim, kind)([p], lr=0.05)
    for _ in range(5):
        optimizer.zero_grad()
        (p * p.conj() * p.real).real.sum().backward()
        optimizer.step()
    return p


COMPLEX = (
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "Adagrad",
    "NAdam",
    "RAdam",
    "Adamax",
    "Adadelta",
    "ASGD",
    "Rprop",
)


def clipped(lib: Any) -> list[Any]:
    found = []
    for kind in (1.0, 2.0, 3.0, float("inf"), 0.5):
        params = start(lib)
        loss_of(lib, params, 0).backward()
        norm = lib.nn.utils.clip_grad_norm_(params, 0.01, norm_type=kind)
        found.append([norm, *(p.grad.clone() for p in params)])
        lib.nn.utils.clip_grad_value_(params, 0.003)
        found.append([p.grad for p in params])
        found.append(lib.nn.utils.get_total_norm([p.grad for p in params], kind))
    return found


def refused(lib: Any, kind: str, **given: Any) -> str:
    return refusal(lambda: getattr(lib.optim, kind)(start(lib), **given))


WRONG: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": -0.1}, {"momentum": -0.1}, {"weight_decay": -0.1}, {"nesterov": True},
            {"nesterov": True, "momentum": 0.5, "dampening": 0.1}],
    "Adam": [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, 1.0)},
             {"betas": (-0.1, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -0.1},
             {"fused": True, "foreach": True}, {"fused": True, "differentiable": True}],
    "AdamW": [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"weight_decay": -0.1}],
    "NAdam": [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)},
              {"weight_decay": -0.1}, {"momentum_decay": -0.1}],
    "RAdam": [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -0.1}],
    "Adamax": [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -0.1}],
    "Adagrad": [{"lr": -0.1}, {"lr_decay": -0.1}, {"weight_decay": -0.1},
                {"initial_accumulator_value": -0.1}, {"eps": -0.1}],
    "Adadelta": [{"lr": -0.1}, {"rho": 1.1}, {"rho": -0.1}, {"eps": -0.1}, {"weight_decay": -0.1}],
    "RMSprop": [{"lr": -0.1}, {"eps": -0.1}, {"momentum": -0.1}, {"weight_decay": -0.1}, {"alpha": -0.1}],
    "Rprop": [{"lr": -0.1}, {"etas": (1.1, 1.2)}, {"etas": (0.5, 0.9)}, {"etas": (0.0, 1.2)}],
    "ASGD": [{"lr": -0.1}, {"weight_decay": -0.1}],
    "Adafactor": [{"lr": -0.1}, {"beta2_decay": 0.1}, {"eps": (-0.1, 1e-3)}, {"eps": (None, -0.1)},
                  {"d": 0.5}, {"weight_decay": -0.1}],
    "SparseAdam": [{"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}],
    "LBFGS": [{"line_search_fn": "armijo", "lr": -0.1}, {"lr": -0.1}],
    "Muon": [{"lr": -0.1}, {"momentum": -0.1}, {"weight_decay": -0.1}, {"adjust_lr_fn": "other"}],
}  # fmt: skip

PROGRAMS: dict[str, Program] = {
    **{
        f"{kind} {k}{' ' * bool(how)}{how}": lambda lib, kind=kind, given=given, how=how: trained(
            lib, kind, given(lib) | ({how: True} if how else {})
        )
        for kind, cases in OPTIONS.items()
        for (k, given), how in itertools.product(enumerate(cases), ("", "foreach", "fused"))
        if not how or (k == 1 and (how != "fused" or kind in FUSED))  # others: test_optim_together
    },
    "SparseAdam": of_rows,
    "Muon": muon,
    **{
        f"LBFGS {line} {place}": lambda lib, line=line, place=place: rosenbrock(lib, LINES[line], STARTS[place])
        for line, place in itertools.product(LINES, STARTS)
        if place == "far" or line == "wolfe"
    },
    "groups": by_groups,
    **{
        f"{kind} goes on": lambda lib, kind=kind, given=cases[1]: going_on(lib, kind, given(lib))
        for kind, cases in OPTIONS.items()
    },
    **{f"complex {kind}": lambda lib, kind=kind: of_complex_numbers(lib, kind) for kind in COMPLEX},
    "clipped": clipped,
    **{
        f"refused: {kind} {given}": lambda lib, kind=kind, given=given: refused(lib, kind, **given)
        for kind, cases in WRONG.items()
        for given in cases
    },
}  # fmt: skip
