"""Sparsifiers and their schedulers beside PyTorch's: the same masks and levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

import torch.ao.pruning as theirs  # noqa: E402

import adjoint as ad  # noqa: E402
from adjoint.ao import pruning as ours  # noqa: E402

WEIGHT = np.cos(np.arange(60, dtype=np.float32) ** 2).reshape(6, 10)


def network(m: Any) -> Any:
    net = m.nn.Sequential(m.nn.Linear(10, 6), m.nn.ReLU(), m.nn.Sequential(m.nn.Linear(6, 4)))
    with m.no_grad():
        net[0].weight.copy_(m.tensor(WEIGHT))
        net[2][0].weight.copy_(m.tensor(WEIGHT[:4, :6]))
    return net


def both(make: Any) -> list[tuple[Any, Any, Any]]:
    """Of each library: its module, a network, and a sparsifier prepared for it."""
    made = []
    for m, pruning in ((ad, ours), (torch, theirs)):
        net, sparsifier = network(m), make(pruning)
        sparsifier.prepare(net, None)
        made.append((pruning, net, sparsifier))
    return made


def masks(net: Any) -> list[Any]:
    steps = (net[0].parametrizations.weight[0], net[2][0].parametrizations.weight[0])
    return [np.asarray(step.mask.tolist(), dtype=np.float32) for step in steps]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"sparsity_level": 0.3, "sparse_block_shape": (1, 1)},
    {"sparsity_level": 0.5, "sparse_block_shape": (2, 2)},
    {"sparsity_level": 0.7, "sparse_block_shape": (2, 2), "zeros_per_block": 3},
    {"sparsity_level": 1.0, "sparse_block_shape": (1, 2), "zeros_per_block": 1},
    {"sparsity_level": 0.5, "sparse_block_shape": (1, 2), "norm": 1},
    {"sparsity_level": 0.0},
    {"sparsity_level": 1.0},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_blocks_of_small_norm_are_left_out(options: dict[str, Any]) -> None:
    found = []
    for _, net, sparsifier in both(lambda p: p.WeightNormSparsifier(**options)):
        sparsifier.step()
        shown = masks(net)
        sparsifier.squash_mask(params_to_keep=("sparsity_level",))
        assert net[0].sparse_params == {"sparsity_level": options.get("sparsity_level", 0.5)}
        assert "parametrizations.weight.original" not in dict(net[0].named_parameters())
        found.append((shown, net[0].weight.detach().numpy()))
    for mine, want in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(mine, want)
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("nearliness", [0, 1, 3, 5])
def test_diagonals_stay(nearliness: int) -> None:
    found = []
    for _, net, sparsifier in both(lambda p: p.NearlyDiagonalSparsifier(nearliness)):
        sparsifier.step()
        found.append(masks(net))
    for mine, want in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, want)


@pytest.mark.parametrize("bad", [2, 99])
def test_impossible_diagonals(bad: int) -> None:
    for _, _, sparsifier in both(lambda p: p.NearlyDiagonalSparsifier(bad)):
        with pytest.raises(ValueError, match="nearliness"):
            sparsifier.step()


SCHEDULES: dict[str, Any] = {
    "lambda": lambda p, s: p.LambdaSL(s, lambda epoch: 0.9**epoch),
    "each": lambda p, s: p.LambdaSL(s, [lambda epoch: 0.5 * epoch, lambda epoch: 1.0]),
    "cubic": lambda p, s: p.CubicSL(s, init_sl=0.1, init_t=2, delta_t=1, total_t=5),
    "late": lambda p, s: p.CubicSL(s, [0.0, 0.2], 3, 1, 4, initially_zero=True),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_levels_of_schedules(name: str) -> None:
    found = []
    for pruning, _, sparsifier in both(lambda p: p.WeightNormSparsifier(0.8, (1, 1))):
        scheduler = SCHEDULES[name](pruning, sparsifier)
        levels = [scheduler.get_last_sl()]
        for _ in range(8):
            sparsifier.step()
            scheduler.step()
            levels.append(scheduler.get_last_sl())
        found.append(levels)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_states_are_taken_over() -> None:
    for pruning, net, sparsifier in both(lambda p: p.WeightNormSparsifier(0.5, (1, 2))):
        sparsifier.step()
        m = ad if pruning is ours else torch
        other = pruning.WeightNormSparsifier(0.1, (1, 1))
        copied = network(m)
        other.prepare(copied, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.0.weight"}])
        state = sparsifier.state_dict()
        assert sorted(state["state"]) == ["0.weight", "2.0.weight"]
        other.load_state_dict(state)
        assert other.groups[0]["sparsity_level"] == 0.5
        np.testing.assert_array_equal(masks(copied)[0], masks(net)[0])
        assert "0.parametrizations.weight.0.mask" not in net.state_dict()


def test_paths() -> None:
    net = network(ad)
    assert ours.module_to_fqn(net, net[2][0]) == "2.0"
    assert ours.fqn_to_module(net, "2.0") is net[2][0]
    assert ours.fqn_to_module(net, "2.9") is None
    info = ours.get_arg_info_from_tensor_fqn(net, "2.0.weight")
    assert (info["module"], info["tensor_name"], info["module_fqn"]) == (net[2][0], "weight", "2.0")
    with pytest.raises(AssertionError, match="no tensor"):
        ours.WeightNormSparsifier().prepare(net, [{"tensor_fqn": "5.weight"}])
    with pytest.raises(AssertionError, match="required"):
        ours.WeightNormSparsifier().prepare(net, [{}])
