"""Iteration spaces: which loop variables a value's dimensions are made of.

Note [atoms]
    A kernel runs over a product of *atoms*, ranges that no view inside the kernel takes apart. A
    value in the kernel has a *map*: for each of its dimensions the atoms it is made of, outermost
    first. Reshapes regroup atoms, splitting one where they must; permutations reorder them; a
    broadcast dimension has *free* atoms, on which the value does not depend and which become the
    atoms of whatever the value meets. Two values are in step when their maps agree, so that one
    can use the other's element while it is still in a register.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adjoint.engine.graph.ir import Node
from adjoint.engine.graph.sizes.extents import content, is_undecided

Shape = tuple[int, ...]


class Atom:
    """A loop range; it may have been split in two, or found to be another one."""

    __slots__ = ("free", "link", "parts", "size")

    def __init__(self, size: int, free: bool = False) -> None:
        self.size = size
        self.free = free
        self.link: Atom | None = None
        self.parts: tuple[Atom, Atom] | None = None

    def __repr__(self) -> str:
        return f"{'free ' if self.free else ''}{self.size}@{id(self) & 0xFFFF:04x}"


Map = tuple[tuple[Atom, ...], ...]


def settle(atoms: Iterable[Atom]) -> list[Atom]:
    """The atoms as they are now: links followed, splits carried out, size 1 left out."""
    result: list[Atom] = []
    for atom in atoms:
        while atom.link is not None:
            atom = atom.link
        if atom.parts is not None:
            result += settle(atom.parts)
        elif atom.size != 1:
            result.append(atom)
    return result


def flatten(where: Map) -> list[Atom]:
    """All atoms of a map in row-major order."""
    return settle(a for dim in where for a in dim)


def split(atom: Atom, inner: int) -> tuple[Atom, Atom]:
    """Take an atom apart into an outer and an inner range."""
    atom.parts = (Atom(atom.size // inner, atom.free), Atom(inner, atom.free))
    return atom.parts


def fresh(shape: Shape) -> Map:
    """A map of new atoms, one per dimension."""
    return tuple((Atom(n),) if n != 1 else () for n in shape)


def regroup(atoms: Iterable[Atom], shape: Shape) -> Map | None:
    """Atoms dealt out over the dimensions of a shape; None where sizes do not divide."""
    rest = settle(atoms)[::-1]
    result: list[tuple[Atom, ...]] = []
    for need in shape:
        dim: list[Atom] = []
        while need > 1:
            atom = rest.pop()
            if need % atom.size == 0:
                dim.append(atom)
                need //= atom.size
            elif atom.size % need == 0:
                outer, inner = split(atom, atom.size // need)
                dim.append(outer)
                rest.append(inner)
                need = 1
            else:
                return None
        result.append(tuple(dim))
    return tuple(result)


def broadcast(where: Map, have: Shape, want: Shape) -> Map:
    """The map of a value broadcast to a larger shape: new dimensions are free."""
    lead = len(want) - len(have)
    front = tuple((Atom(n, free=True),) for n in want[:lead])
    return front + tuple(
        (Atom(m, free=True),) if n == 1 and m != 1 else dim
        for dim, n, m in zip(where, have, want[lead:], strict=True)
    )


def through(where: Map, views: Sequence[Node]) -> Map | None:
    """The map of what a chain of views shows; None where a view takes only a part."""
    for view in views:
        have = view.inputs[0].spec.shape
        want = view.outputs[0].spec.shape
        shown: Map | None
        match view.record.name:
            case "reshape":
                shown = regroup(flatten(where), want)
            case "permute":
                shown = tuple(where[d] for d in view.params["dims"])
            case "expand":
                shown = broadcast(where, have, want)
            case "slice":
                shown = _slice(where, have, view.params["index"])
            case _:
                shown = None
        if shown is None:
            return None
        where = shown
    return where


def _slice(where: Map, have: Shape, index: tuple[object, ...]) -> Map | None:
    """Only slices that keep everything: new and dropped dimensions of size 1."""
    result: list[tuple[Atom, ...]] = []
    place = 0
    for entry in index:
        if entry is None:
            result.append(())
            continue
        size = have[place]
        if isinstance(entry, int):
            if size != 1:
                return None
        elif entry == (0, size, 1):
            result.append(where[place])
        else:
            return None
        place += 1
    return tuple(result)


def unify(a: Sequence[Atom], b: Sequence[Atom], foreign: frozenset[Atom] = frozenset()) -> bool:
    """Make two rows of atoms the same: free atoms (and foreign ones of `b`) become the other's.

    Where that cannot be, no atom becomes another (some may have been split).
    """
    left, right = settle(a)[::-1], settle(b)[::-1]
    linked: list[Atom] = []
    while left and right:
        x, y = left.pop(), right.pop()
        if x is y:
            continue
        if not _equal(x.size, y.size):
            if _divides(y.size, x.size):
                x, rest = split(x, x.size // y.size)
                left.append(rest)
            elif _divides(x.size, y.size):
                y, rest = split(y, y.size // x.size)
                right.append(rest)
            else:
                return unlink(linked)
        if y.free or _belongs(y, foreign):
            y.link = x
            linked.append(y)
        elif x.free:
            x.link = y
            linked.append(x)
        else:
            return unlink(linked)
    return True if not left and not right else unlink(linked)


def _equal(a: int, b: int) -> bool:
    """Whether two ranges are equally long; a symbol is no number, though at some size it equals it.

    To keep ranges apart is right at every size, so it needs no guard: with one, each size that is
    as long as some dimension of the model, or divides it, would have a plan of its own.
    """
    return is_undecided(a) == is_undecided(b) and a == b


def _divides(a: int, b: int) -> bool:
    """Whether a range can be cut into parts of a length; a symbol's where that is certain."""
    if is_undecided(a) == is_undecided(b):
        return b % a == 0
    return not is_undecided(a) and content(b) % a == 0


def unlink(atoms: Iterable[Atom]) -> bool:
    """Have atoms be themselves again; False, for a unification that failed."""
    for atom in atoms:
        atom.link = None
    return False


def _belongs(atom: Atom, group: frozenset[Atom]) -> bool:
    return bool(group) and any(atom in settle([whole]) for whole in group)
