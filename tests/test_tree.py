"""Trees of leaves: pairing by key, and what is said where structures differ."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.core.tree import flatten, map_tree, matched, unflatten
from adjoint.utils import _pytree as pytree


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Point:
    x: Any
    y: Any


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abcd"), children, max_size=4)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.lists(children, max_size=3).map(deque),
        named,
        named.map(OrderedDict),
        named.map(lambda held: defaultdict(list, held)),
        st.builds(Pair, children, children),
        st.builds(Point, children, children),
    )


TREES = st.recursive(st.none() | st.integers(0, 99), containers, max_leaves=8)


def shuffled(tree: Any, draw: Any) -> Any:
    """The same tree with dicts in another order and of another kind."""
    match tree:
        case dict():
            keys = draw(st.permutations(list(tree)))
            kind = draw(st.sampled_from([dict, OrderedDict, lambda held: defaultdict(int, held)]))
            return kind({key: shuffled(tree[key], draw) for key in keys})
        case Pair() | Point():
            kind = type(tree)
            held = vars(tree) if isinstance(tree, Point) else tree._asdict()
            return kind(*(shuffled(each, draw) for each in held.values()))
        case list() | tuple() | deque():
            return type(tree)(shuffled(each, draw) for each in tree)
    return tree


@given(tree=TREES, data=st.data())
def test_leaves_are_paired_by_key(tree: Any, data: Any) -> None:
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    other = shuffled(tree, data.draw)
    assert matched(structure, other) == leaves
    assert map_tree(lambda x, y: x is y, tree, other) == unflatten(structure, [True] * len(leaves))
    assert type(map_tree(lambda x, y: x, tree, other)) is type(tree)


@given(tree=TREES, data=st.data())
def test_one_other_node_is_an_error(tree: Any, data: Any) -> None:
    leaves, structure = flatten(tree)
    if not leaves:
        return
    place = data.draw(st.integers(0, len(leaves) - 1))
    other = unflatten(structure, [[x] if i == place else x for i, x in enumerate(leaves)])
    with pytest.raises(ValueError, match="trees differ at"):
        matched(structure, other)
    expected = [[x] if i == place else x for i, x in enumerate(leaves)]
    assert matched(structure, other, deeper=True) == expected
    with pytest.raises(ValueError, match="fewer leaves"):
        unflatten(structure, leaves[:-1])
    with pytest.raises(ValueError, match="more leaves"):
        unflatten(structure, [*leaves, 1])


@pytest.mark.parametrize(
    ("tree", "other", "said"),
    [
        ({"a": 1}, {"b": 1}, r"the root: dict with \[\"'a'\"\] expected"),
        ({"a": [1, 2]}, {"a": [1]}, r"\['a'\]: list of 2 expected, list of 1 received"),
        ({"a": [1, (2,)]}, {"a": [1, [2]]}, r"\['a'\]\[1\]: tuple of 1 expected, list of 1"),
        ([Pair(1, {"k": 2})], [Pair(1, {"k": [2]})], r"\[0\].second\['k'\]: a leaf expected"),
        (Point([1], 2), Point(1, 2), r"\.x: list of 1 expected, a leaf received"),
        (Pair(1, 2), (1, 2), "the root: Pair of 2 expected, tuple of 2 received"),
        ([1], 1, "the root: list of 1 expected, a leaf received"),
        ({"a": None}, {"a": []}, r"\['a'\]: a leaf expected, list of 0 received"),
    ],
)
def test_the_place_that_differs_is_named(tree: Any, other: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        map_tree(lambda x, y: x, tree, other)


def test_pytorchs_names_have_its_leaves() -> None:
    point, sparse = Point(1, 2), ad.ones(2).to_sparse()
    assert pytree.tree_leaves([point, sparse, None]) == [point, sparse, None]
    assert pytree.tree_map(lambda x, y: (x, y), [1, None], [[2], 3]) == [(1, [2]), (None, 3)]
    assert pytree.tree_leaves([(1, 2), [3]], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]
    assert pytree.tree_map_only(int | float, lambda x: -x, [1, "a", 2.0]) == [-1, "a", -2.0]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: -x, [1, 2]) == [-1, 2]


class Noted(NamedTuple("Noted", [("left", Any), ("right", Any)])):  # type: ignore[misc]
    """A named tuple with attributes, of which its class sets one."""

    def __new__(cls, left: Any, right: Any) -> Any:
        noted = super().__new__(cls, left, right)
        noted.made_by = "the class"
        return noted


def test_pytorchs_names_have_a_named_tuples_fields_alone() -> None:
    noted = Noted(1, [2])
    noted.note = 3
    assert pytree.tree_leaves({"a": noted}) == [1, 2]
    doubled = pytree.tree_map(lambda x, y: x + y, noted, Noted(10, [20]))
    assert doubled == (11, [22])
    assert type(doubled) is Noted
    assert vars(doubled) == {"made_by": "the class"}
    assert pytree.tree_structure(noted).context is Noted
    values, places = pytree.tree_map(lambda x: x + 1, ad.max(ad.ones(2, 3), 0))
    assert (values.tolist(), places.tolist()) == ([2.0] * 3, [1] * 3)
    # A compiled function returns all that there is.
    assert vars(map_tree(lambda x: x, noted)) == vars(noted)


def test_a_tapes_output_gradients_are_paired_by_key() -> None:
    x = ad.ones(2, requires_grad=True)
    for gradients in ({"b": ad.full((2,), 5.0), "a": None}, [None, ad.full((2,), 5.0)]):
        with ad.GradientTape() as tape:
            target = {"a": x * 2, "b": x * 3}
        assert tape.gradient(target, x, output_gradients=gradients).tolist() == [17.0, 17.0]
    with ad.GradientTape() as tape:
        target = {"a": x * 2, "b": x * 3}
    with pytest.raises(ValueError, match="output_gradients: trees differ at the root"):
        tape.gradient(target, x, output_gradients={"a": ad.ones(2)})


def test_chunks_of_vmap_must_return_one_structure() -> None:
    calls = []

    def turning(x: ad.Tensor) -> dict[str, ad.Tensor]:
        calls.append(1)
        return {"a": x, "b": -x} if len(calls) == 1 else {"b": -x, "a": x}

    with pytest.raises(ValueError, match="dict keys in one order"):
        ad.vmap(turning, chunk_size=2)(ad.arange(4.0))
