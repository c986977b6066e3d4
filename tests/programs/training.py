"""Programs that train: modes, optimizers, schedules, averages, freezing, tied weights, hooks."""

from __future__ import annotations

import copy
import types
from typing import Any

import adjoint as ad
from adjoint import nn, optim
from adjoint.nn import functional as F

from .playing import Wrap, ones, program, ramp


def small(*layers: Any) -> Any:
    ad.manual_seed(0)
    return nn.Sequential(*[layer() for layer in layers])


def linear() -> Any:
    return nn.Linear(2, 2)


def stepper(net: Any, opt: Any) -> Any:
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step


@program
def train_and_eval(wrap: Wrap) -> Any:
    net = small(linear, nn.Tanh, lambda: nn.Dropout(0.5), lambda: nn.BatchNorm1d(2))
    run = wrap(net)
    ad.manual_seed(1)
    out = [run(ramp(4, 2)), run(ramp(4, 2))]
    net.eval()
    out.append(run(ramp(4, 2)))
    net[3].train()
    out.append(run(ramp(4, 2)))
    net.train()
    out.append(run(ramp(4, 2)))
    return out, net.state_dict(), ad.rand(1)


@program
def dropout_rate_changed(wrap: Wrap) -> Any:
    net = small(lambda: nn.Dropout(0.5))
    run = wrap(net)
    ad.manual_seed(1)
    out = [run(ones(8))]
    net[0].p = 0.0
    out.append(run(ones(8)))
    net[0].p = 0.9
    return [*out, run(ones(8))]


@program
def batch_norm_settings(wrap: Wrap) -> Any:
    bn = nn.BatchNorm1d(2)
    run = wrap(bn)
    out = [run(ramp(4, 2))]
    bn.momentum = 0.5
    out.append(run(ramp(4, 2)))
    bn.eps = 1.0
    out.append(run(ramp(4, 2)))
    bn.reset_running_stats()
    return [*out, run(ramp(4, 2)), bn.running_mean, bn.num_batches_tracked]


@program
def forward_that_reads_training(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0
            self.register_buffer("count", ad.zeros(()))

        def forward(self, x: Any) -> Any:
            if self.training:
                self.count += 1
                return x * self.scale + self.count
            return x

    net = Net()
    run = wrap(net)
    out = [run(ones(2)), run(ones(2))]
    net.eval()
    out.append(run(ones(2)))
    net.train()
    net.scale = 3.0
    out.append(run(ones(2)))
    net.count = ad.tensor(10.0)
    return [*out, run(ones(2)), net.count]


@program
def rate_schedule(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    schedule = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
    run = wrap(stepper(net, opt))
    out = []
    for _ in range(5):
        out.append(run(ramp(2, 2)))
        schedule.step()
    return out, net.state_dict(), opt.param_groups[0]["lr"]


@program
def schedule_inside(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.Adam(net.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    step = stepper(net, opt)

    def f(x: Any) -> Any:
        loss = step(x)
        schedule.step()
        return loss

    run = wrap(f)
    return [run(ramp(2, 2)) for _ in range(4)], schedule.get_last_lr(), schedule.last_epoch


@program
def settings_of_optimizers(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.0)
    run = wrap(stepper(net, opt))
    out = [run(ramp(2, 2)), run(ramp(2, 2))]
    opt.param_groups[0]["weight_decay"] = 0.5
    out.append(run(ramp(2, 2)))
    opt.param_groups[0]["betas"] = (0.5, 0.9)
    out.append(run(ramp(2, 2)))
    opt.param_groups[0]["amsgrad"] = False
    opt.param_groups[0]["maximize"] = True
    return [*out, run(ramp(2, 2)), run(ramp(2, 2))], net.state_dict()


@program
def group_added(wrap: Wrap) -> Any:
    net = small(linear, linear)
    opt = optim.SGD(net[0].parameters(), lr=0.1, momentum=0.5)
    run = wrap(stepper(net, opt))
    out = [run(ramp(2, 2)), run(ramp(2, 2))]
    opt.add_param_group({"params": list(net[1].parameters()), "lr": 0.01})
    return [*out, run(ramp(2, 2)), run(ramp(2, 2))], net.state_dict()


@program
def optimizer_replaced(wrap: Wrap) -> Any:
    net = small(linear)
    s = types.SimpleNamespace(opt=optim.SGD(net.parameters(), lr=0.1))

    def step(x: Any) -> Any:
        s.opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        s.opt.step()
        return loss

    run = wrap(step)
    out = [run(ramp(2, 2)), run(ramp(2, 2))]
    s.opt = optim.Adam(net.parameters(), lr=0.1)
    return [*out, run(ramp(2, 2)), run(ramp(2, 2))], net.state_dict()


@program
def state_loaded(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.Adam(net.parameters(), lr=0.1)
    run = wrap(stepper(net, opt))
    kept = copy.deepcopy((net.state_dict(), opt.state_dict()))
    out = [run(ramp(2, 2)) for _ in range(3)]
    net.load_state_dict(kept[0])
    opt.load_state_dict(kept[1])
    return out, [run(ramp(2, 2)) for _ in range(3)], opt.state_dict()["state"][0]["step"]


@program
def freezing(wrap: Wrap) -> Any:
    net = small(linear, nn.Tanh, linear)
    opt = optim.SGD(net.parameters(), lr=0.1)
    run = wrap(stepper(net, opt))
    out = [run(ramp(2, 2))]
    for p in net[0].parameters():
        p.requires_grad_(False)
    out += [run(ramp(2, 2)), run(ramp(2, 2)), net[0].weight.grad is None]
    for p in net[0].parameters():
        p.requires_grad_(True)
    return [*out, run(ramp(2, 2))], net.state_dict()


@program
def tied_weights(wrap: Wrap) -> Any:
    net = small(linear, linear)
    net[1].weight = net[0].weight
    opt = optim.SGD(net.parameters(), lr=0.1)
    run = wrap(stepper(net, opt))
    out = [run(ramp(2, 2)), run(ramp(2, 2))]
    net[1].weight = nn.Parameter(net[0].weight.detach().clone())
    return [*out, run(ramp(2, 2)), run(ramp(2, 2))], net.state_dict()


@program
def average_of_weights(wrap: Wrap) -> Any:
    net = small(linear)
    average = copy.deepcopy(net)
    opt = optim.SGD(net.parameters(), lr=0.1)
    s = types.SimpleNamespace(decay=0.5, updates=0)
    step = stepper(net, opt)

    def f(x: Any) -> Any:
        loss = step(x)
        s.updates += 1
        with ad.no_grad():
            for a, b in zip(average.parameters(), net.parameters(), strict=True):
                a.mul_(s.decay).add_(b, alpha=1 - s.decay)
        return loss

    run = wrap(f)
    out = [run(ramp(2, 2)), run(ramp(2, 2))]
    s.decay = 0.9
    return [*out, run(ramp(2, 2))], average.state_dict(), s.updates


@program
def accumulation_every_second_call(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.SGD(net.parameters(), lr=0.1)
    n = [0]

    def f(x: Any) -> Any:
        loss = net(x).square().mean() / 2
        loss.backward()
        n[0] += 1
        if n[0] % 2 == 0:
            opt.step()
            opt.zero_grad()
        return loss.detach()

    run = wrap(f)
    return [run(ramp(2, 2)) for _ in range(6)], net.state_dict(), net[0].weight.grad is None


@program
def zeroed_not_dropped(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def f(x: Any) -> Any:
        opt.zero_grad(set_to_none=False)
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    run = wrap(f)
    out = [run(ramp(2, 2))]
    grad = net[0].weight.grad
    return [*out, run(ramp(2, 2)), net[0].weight.grad is grad, grad]


@program
def clipping(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.SGD(net.parameters(), lr=0.1)
    s = types.SimpleNamespace(most=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        net(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), s.most)
        opt.step()
        return norm

    run = wrap(f)
    out = [run(ramp(2, 2))]
    s.most = 10.0
    return [*out, run(ramp(2, 2)), run(ramp(2, 2))], net.state_dict()


@program
def forward_hooks(wrap: Wrap) -> Any:
    net = small(linear, nn.Tanh)
    log: list[Any] = []
    run = wrap(net)
    out = [run(ramp(2, 2))]
    handle = net[0].register_forward_hook(lambda m, args, y: log.append(y.sum()) or y * 2)  # type: ignore[func-returns-value]
    out += [run(ramp(2, 2)), run(ramp(2, 2))]
    handle.remove()
    before = net[1].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    out.append(run(ramp(2, 2)))
    before.remove()
    return [*out, run(ramp(2, 2))], log


@program
def hooks_of_backward(wrap: Wrap) -> Any:
    net = small(linear, linear)
    log: list[Any] = []
    net[0].register_full_backward_hook(lambda m, gi, go: log.append(go[0].sum()))

    def f(x: Any) -> Any:
        net.zero_grad()
        net(x).sum().backward()
        return net[0].weight.grad + 0

    run = wrap(f)
    return [run(ramp(2, 2)) for _ in range(3)], log


@program
def two_networks_in_turn(wrap: Wrap) -> Any:
    g, d = small(linear), small(linear, nn.Tanh)
    opts = [optim.SGD(g.parameters(), lr=0.1), optim.SGD(d.parameters(), lr=0.1)]
    s = types.SimpleNamespace(turn=0)

    def f(x: Any) -> Any:
        opt = opts[s.turn % 2]
        opt.zero_grad()
        loss = d(g(x)).mean() * (1 if s.turn % 2 else -1)
        loss.backward()
        opt.step()
        s.turn += 1
        return loss.detach()

    run = wrap(f)
    return [run(ramp(2, 2)) for _ in range(5)], g.state_dict(), d.state_dict()


@program
def early_stop_and_best(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.SGD(net.parameters(), lr=0.1)
    step = stepper(net, opt)
    s: Any = types.SimpleNamespace(epoch=0, history=[], best=None)

    def f(x: Any) -> Any:
        loss = step(x)
        s.epoch += 1
        s.history.append(loss)
        s.best = loss if s.best is None else ad.minimum(s.best, loss)
        return loss

    run = wrap(f)
    return [run(ramp(2, 2)) for _ in range(4)], s.epoch, s.history, s.best


@program
def layers_dropped_by_setting(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            self.depth = 3
            self.activation = "tanh"

        def forward(self, x: Any) -> Any:
            for layer in self.layers[: self.depth]:
                x = getattr(ad, self.activation)(layer(x))
            return x

    ad.manual_seed(0)
    net = Net()
    run = wrap(net)
    out = [run(ramp(2, 2))]
    net.depth = 2
    out.append(run(ramp(2, 2)))
    net.activation = "relu"
    out.append(run(ramp(2, 2)))
    net.layers.append(nn.Linear(2, 2))
    net.depth = 4
    return [*out, run(ramp(2, 2)), len(net.layers)]


@program
def compiled_method(wrap: Wrap) -> Any:
    class Trainer:
        def __init__(self) -> None:
            ad.manual_seed(0)
            self.net = nn.Linear(2, 1)
            self.opt = optim.SGD(self.net.parameters(), lr=0.1)
            self.seen = 0
            self.losses: list[Any] = []
            self.step = wrap(self._step)

        def _step(self, x: Any) -> Any:
            self.seen += x.shape[0]
            self.opt.zero_grad()
            loss = self.net(x).square().mean()
            loss.backward()
            self.opt.step()
            self.losses.append(loss.detach())
            return self.seen

    t = Trainer()
    return [t.step(ramp(n, 2)) for n in (3, 3, 2, 3)], t.losses, t.seen


@program
def parameter_replaced_in_optimizer(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    opt = optim.SGD([w], lr=0.1, momentum=0.9)

    def f(x: Any) -> Any:
        opt.zero_grad()
        (opt.param_groups[0]["params"][0] * x).sum().backward()
        opt.step()

    run = wrap(f)
    run(ones(2))
    v = (ones(2) * 5).requires_grad_()
    opt.param_groups[0]["params"][0] = v
    run(ones(2))
    run(ones(2))
    return w, v


@program
def loss_weights_and_labels(wrap: Wrap) -> Any:
    net = small(linear)
    s = types.SimpleNamespace(smooth=0.0, weight=ones(2), reduction="mean")
    y = ad.tensor([0, 1])
    run = wrap(
        lambda x: F.cross_entropy(
            net(x), y, weight=s.weight, label_smoothing=s.smooth, reduction=s.reduction
        )
    )
    out = [run(ramp(2, 2))]
    s.smooth = 0.1
    out.append(run(ramp(2, 2)))
    s.reduction = "sum"
    out.append(run(ramp(2, 2)))
    s.weight = ad.tensor([1.0, 5.0])
    out.append(run(ramp(2, 2)))
    s.weight.mul_(2)
    y.fill_(0)
    return [*out, run(ramp(2, 2))]


@program
def functional_call(wrap: Wrap) -> Any:
    net = small(linear, lambda: nn.Dropout(0.5))
    params = {k: v.detach().clone() for k, v in net.named_parameters()}
    run = wrap(lambda x: ad.func.functional_call(net, params, (x,)))
    ad.manual_seed(2)
    out = [run(ramp(2, 2))]
    net.eval()
    out.append(run(ramp(2, 2)))
    params["0.weight"] = params["0.weight"] * 2
    return [*out, run(ramp(2, 2))]


@program
def closure_of_lbfgs(wrap: Wrap) -> Any:
    w = ones(2).requires_grad_()
    opt = optim.SGD([w], lr=0.1)

    def f(x: Any) -> Any:
        def closure() -> Any:
            opt.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            return loss

        return opt.step(closure)

    run = wrap(f)
    return [run(ones(2)) for _ in range(3)], w


@program
def lazily_made_layer(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj: Any = None

        def forward(self, x: Any) -> Any:
            if self.proj is None:
                ad.manual_seed(0)
                self.proj = nn.Linear(x.shape[-1], 2)
            return self.proj(x)

    net = Net()
    run = wrap(net)
    return [run(ramp(1, 3)), run(ramp(1, 3))], list(net.state_dict())


@program
def buffer_replaced_and_written(wrap: Wrap) -> Any:
    class Net(nn.Module):
        seen: Any

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", ad.tensor(0.0))
            self.w = nn.Parameter(ad.ones(3))

        def forward(self, x: Any) -> Any:
            with ad.no_grad():
                if self.seen.shape != x.shape:
                    self.seen = ad.zeros(x.shape)
                self.seen.copy_(self.seen + x)
            return self.w * self.seen + x

    net = Net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    run = wrap(stepper(net, opt))
    return [run(ones(3)) for _ in range(4)], net.seen


@program
def momentum_begun_beside_a_schedule(wrap: Wrap) -> Any:
    net = small(linear, nn.Tanh, linear)
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = optim.lr_scheduler.CosineAnnealingLR(opt, 5)
    advance = stepper(net, opt)

    def step(x: Any) -> Any:
        loss = advance(x)
        schedule.step()
        return loss

    run = wrap(step, dynamic=True)
    losses = [run(ramp(size, 2)) for size in (3, 3, 4, 3)]
    return losses, [state["momentum_buffer"] for state in opt.state.values()]


@program
def rate_set_inside(wrap: Wrap) -> Any:
    net = small(linear)
    opt = optim.AdamW(net.parameters(), lr=0.1)
    state = types.SimpleNamespace(step=0)
    advance = stepper(net, opt)

    def step(x: Any) -> Any:
        state.step += 1
        for group in opt.param_groups:
            group["lr"] = min(1.0, state.step / 3) * 0.1
            group.update(betas=(0.5, 0.6))
        return advance(x), opt.param_groups[0]["lr"]

    run = wrap(step)
    return [run(ramp(3, 2)) for _ in range(6)], list(net.parameters()), opt.param_groups[0]["lr"]
