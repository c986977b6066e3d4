"""Steps that change their optimizer: its state, counts, groups and rates."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import nn, optim

from .playing import Wrap, program, ramp

Change = Callable[[nn.Linear, Any, int], Any]


def stepping(wrap: Wrap, change: Change, **options: Any) -> Any:
    """Train, with a change of the optimizer before each step; what is left of both."""
    ad.manual_seed(0)
    net = nn.Linear(2, 2)
    opt = optim.Adam(net.parameters(), lr=0.1)
    count = types.SimpleNamespace(step=0)

    def step(x: Any) -> Any:
        count.step += 1
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        change(net, opt, count.step)
        opt.step()
        return loss.detach()

    run = wrap(step, **options)
    losses = [run(ramp(3, 2)) for _ in range(5)]
    return losses, list(net.parameters()), list(opt.state.values()), opt.param_groups[0]["lr"]


def _at(third: Callable[[nn.Linear, Any], Any]) -> Change:
    return lambda net, opt, step: third(net, opt) if step == 3 else None


@program
def state_cleared(wrap: Wrap) -> Any:
    return stepping(wrap, _at(lambda net, opt: opt.state.clear()))


@program
def state_of_one_taken_away(wrap: Wrap) -> Any:
    return stepping(wrap, _at(lambda net, opt: opt.state.pop(net.weight)))


@program
def average_begun_anew(wrap: Wrap) -> Any:
    return stepping(wrap, _at(lambda net, opt: opt.state[net.weight]["exp_avg"].zero_()))


@program
def count_set_back(wrap: Wrap) -> Any:
    def change(net: nn.Linear, opt: Any, step: int) -> None:
        for state in opt.state.values():
            state["step"].fill_(float(step % 3))

    return stepping(wrap, change)


@program
def state_loaded_inside(wrap: Wrap) -> Any:
    return stepping(wrap, _at(lambda net, opt: opt.load_state_dict(opt.state_dict())))


@program
def rate_set_under_a_flag(wrap: Wrap) -> Any:
    return stepping(wrap, _at(lambda net, opt: opt.param_groups[0].update(lr=0.5)), dynamic=True)
