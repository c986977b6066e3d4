"""States by names of parameters, of one process: as PyTorch's functions give and take them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from adjoint.distributed.checkpoint import state_dict as ours
from tests.ranks.checks import same

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.distributed.checkpoint.state_dict")
their_wrapper = pytest.importorskip("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
PACKAGES = {
    "ours": (ad, ours, checkpoint_wrapper),
    "theirs": (torch, theirs, their_wrapper.checkpoint_wrapper),
}


def made(package: str, kind: str) -> Any:
    """A model of a kind, with the same numbers in both packages."""
    lib, _, wrap = PACKAGES[package]

    class Fused(lib.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = lib.nn.Linear(3, 3, bias=False)
            self.extra = lib.nn.Linear(3, 3)
            if kind == "modified":
                self._register_state_dict_hook(shorter)
                self._register_load_state_dict_pre_hook(longer)

        def _fqn_modifiers(self) -> dict[str, str]:
            return {"weight": "embedding"} if kind == "modified" else {}

        def forward(self, x: Any) -> Any:
            return self.extra(self.embedding(x))

    class Model(lib.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = Fused()
            self.norm = lib.nn.BatchNorm1d(3)
            self.register_buffer("scratch", lib.ones(2), persistent=False)
            self.head = lib.nn.Linear(3, 3)
            if kind == "tied":
                self.head.weight = self.module.embedding.weight
            if kind == "frozen":
                self.module.extra.requires_grad_(False)
            if kind == "checkpoints":
                self.module = wrap(self.module)
            if kind == "compiled":
                self.module.embedding = lib.compile(self.module.embedding, **eager)
            if kind == "extra":
                self.note = "first"

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(self.module(x)))

        if kind == "extra":

            def get_extra_state(self) -> Any:
                return {"note": self.note}

            def set_extra_state(self, state: Any) -> None:
                self.note = state["note"]

    eager = {"backend": "eager"} if package == "theirs" else {}
    model: Any = Model()
    if kind == "whole":
        model = lib.compile(wrap(model), **eager)
    with lib.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((lib.arange(float(p.numel())).view(*p.shape) + i).sin())
    model.eval()  # statistics of two rows would make noise of gradients
    return model


def shorter(module: Any, state: Any, prefix: str, *_: Any) -> None:
    state[prefix + "weight"] = state.pop(prefix + "embedding.weight")


def longer(state: Any, prefix: str, *_: Any) -> None:
    state[prefix + "embedding.weight"] = state.pop(prefix + "weight")


def optimizers_of(package: str, model: Any, steps: int) -> list[Any]:
    """Two optimizers, one with two groups, after some steps."""
    lib = PACKAGES[package][0]
    first, *rest = list(model.parameters())
    adam = lib.optim.Adam([{"params": rest[:2], "lr": 0.5}, {"params": rest[2:]}], lr=0.25)
    optimizers = [adam, lib.optim.SGD([first], lr=0.1, momentum=0.5)]
    for _ in range(steps):
        (model(lib.arange(6.0).view(2, 3).cos()) ** 2).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return optimizers


def alike(mine: Any, wanted: Any, at: str = "") -> None:
    """Trees with the same keys, and the same numbers."""
    if isinstance(wanted, dict):
        for key in wanted:
            assert key in mine, (at, key)
            alike(mine[key], wanted[key], f"{at}.{key}" if at else str(key))
    elif isinstance(wanted, (list, tuple)):
        assert len(mine) == len(wanted), at
        for one, other in zip(mine, wanted, strict=True):
            alike(one, other, at)
    elif hasattr(wanted, "detach"):
        same(mine, wanted.detach().numpy(), 1e-4)
    else:
        assert mine == wanted, at


KINDS = ("plain", "tied", "frozen", "checkpoints", "compiled", "whole", "modified", "extra")
OPTIONS: list[dict[str, Any]] = [
    {"flatten_optimizer_state_dict": flat, "ignore_frozen_params": frozen, "full_state_dict": full}
    for flat, frozen, full in ((False, True, False), (True, False, True), (True, True, False))
]


@pytest.mark.parametrize("kind", KINDS)
def test_gives_and_takes_what_pytorch_does(kind: str) -> None:
    for options in OPTIONS:
        states = {}
        for package, (_, functions, _) in PACKAGES.items():
            model = made(package, kind)
            # (PyTorch gives an optimizer's state names that it does not take, where hooks do.)
            optimizers = [] if kind == "modified" else optimizers_of(package, model, 2)
            chosen = functions.StateDictOptions(**options)
            state, optim_state = functions.get_state_dict(model, optimizers, options=chosen)
            states[package] = (state, optim_state)
            if options["ignore_frozen_params"] and kind == "frozen":
                chosen.strict = False
            if package == "theirs":
                chosen.full_state_dict = False  # it looks for names it has not made
            again = made(package, kind)
            with PACKAGES[package][0].no_grad():
                for p in again.parameters():
                    p.zero_()
            fresh = [] if kind == "modified" else optimizers_of(package, again, 0)
            functions.set_state_dict(
                again, fresh, model_state_dict=dict(state), optim_state_dict=dict(optim_state),
                options=chosen,
            )  # fmt: skip
            states[package + " again"] = functions.get_state_dict(again, fresh, options=chosen)
        for mine, wanted in (("ours", "theirs"), ("ours again", "theirs again")):
            assert set(states[mine][0]) == set(states[wanted][0])
            alike(states[mine], states[wanted])


@pytest.mark.parametrize("keep", [False, True])
def test_submodules(keep: bool) -> None:
    states = []
    for package, (_, functions, _) in PACKAGES.items():
        model = made(package, "tied")
        options = functions.StateDictOptions(keep_submodule_prefixes=keep)
        with pytest.warns(FutureWarning, match="submodules"):
            states.append(
                functions.get_model_state_dict(model, submodules={model.module}, options=options)
            )
        lib = PACKAGES[package][0]
        given = {model.module.extra: {"weight": lib.ones(3, 3), "bias": lib.zeros(3)}}
        with pytest.warns(FutureWarning, match="preprocess"):
            functions.set_model_state_dict(
                model, given, options=functions.StateDictOptions(strict=False)
            )
        states.append({"weight": model.module.extra.weight, "bias": model.module.extra.bias})
    assert list(states[0]) == list(states[2])
    alike(states[0], states[2])
    alike(states[1], states[3])


def test_of_submodules_an_optimizer_has_theirs_alone() -> None:
    model = made("ours", "plain")
    optimizers = optimizers_of("ours", model, 1)
    with pytest.warns(FutureWarning):
        state = ours.get_optimizer_state_dict(model, optimizers, submodules={model.module})
    assert list(state["state"]) == [
        f"module.{name}" for name in ("extra.weight", "extra.bias", "embedding.weight")
    ]
    assert [g["params"] for g in state["param_groups"]] == [
        ["module.extra.weight", "module.extra.bias"],
        ["module.embedding.weight"],
    ]


def test_meta_models_keep_their_parameters() -> None:
    """What an optimizer holds is what is loaded; ties stay; what is not loaded stays on meta."""
    source = made("ours", "tied")
    with ad.device("meta"):
        model = source.__class__()
    parameters = {id(p) for p in model.parameters()}
    state = ours.get_model_state_dict(source)
    left = state.pop("module.extra.bias")
    result = ours.set_model_state_dict(model, state, options=ours.StateDictOptions(strict=False))
    assert result.missing_keys == ["module.extra.bias"]
    assert model.module.extra.bias.device.type == "meta"
    ours.set_model_state_dict(model, {**state, "module.extra.bias": left})
    assert {id(p) for p in model.parameters()} == parameters
    assert model.head.weight is model.module.embedding.weight
    alike(dict(model.state_dict()), dict(source.state_dict()))


def test_refusals() -> None:
    model, other = made("ours", "plain"), made("ours", "tied")
    optimizers = optimizers_of("ours", model, 1)
    state = ours.get_optimizer_state_dict(model, optimizers)
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        ours.get_model_state_dict(model, options=ours.StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(RuntimeError, match="not one of the model's"):
        ours.get_optimizer_state_dict(other, optimizers)
    with pytest.raises(RuntimeError, match="not one of the model's"):
        ours.set_optimizer_state_dict(other, optimizers, state)
    with pytest.raises(RuntimeError, match="missing"):
        ours.set_model_state_dict(model, {})
    with pytest.raises(RuntimeError, match="size mismatch"):
        ours.set_model_state_dict(
            model, {"head.bias": ad.ones(4)}, options=ours.StateDictOptions(strict=False)
        )
    del state["state"]["head.bias"]
    with pytest.raises(RuntimeError, match="Missing optimizer state for parameter 'head.bias'"):
        ours.set_optimizer_state_dict(model, optimizers, state)
    options = ours.StateDictOptions(strict=False)
    ours.set_optimizer_state_dict(model, optimizers, state, options=options)
    state["state"]["head.weight"]["name"] = "a"
    for p in model.parameters():
        optimizers[0].state[p]["name"] = "a"
    flat = ours.StateDictOptions(flatten_optimizer_state_dict=True)
    with pytest.raises(NotImplementedError, match="tensor, int, float"):
        ours.get_optimizer_state_dict(model, optimizers, options=flat)


def test_options_lie_in_pytorchs_order_and_can_be_set() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given: Any = (True, True, True, False, False, True, True, "names")
        mine, wanted = ours.StateDictOptions(*given), theirs.StateDictOptions(*given)
    for field in wanted.__dataclass_fields__:
        assert getattr(mine, field) == getattr(wanted, field)
    mine.strict = True
    assert mine.strict
