"""The least cut of a network: what rematerialisation decides with."""

from __future__ import annotations

from collections import deque

NEVER = 1 << 60  # the capacity of an arc that no cut may take


class Network:
    """Vertices are numbers; 0 is the source, 1 the sink.

    >>> network = Network()
    >>> a = network.vertex()
    >>> network.arc(0, a, 3)
    >>> network.arc(a, 1, 2)
    >>> sorted(network.source_side())  # the arc to the sink is the cheaper one
    [0, 2]
    """

    def __init__(self) -> None:
        self.out: list[list[int]] = [[], []]  # arcs by vertex; arc k ^ 1 is k reversed
        self.head: list[int] = []
        self.left: list[int] = []  # capacity

    def vertex(self) -> int:
        """A new vertex."""
        self.out.append([])
        return len(self.out) - 1

    def arc(self, tail: int, head: int, capacity: int) -> None:
        """A new arc."""
        self.out[tail].append(len(self.head))
        self.out[head].append(len(self.head) + 1)
        self.head += (head, tail)
        self.left += (capacity, 0)

    def source_side(self) -> set[int]:
        """The source's side of a least cut, and of those the one with fewest vertices."""
        while True:
            level = self.levels()
            if level[1] < 0:
                return {v for v, at in enumerate(level) if at >= 0}
            following = [0] * len(self.out)
            while self.push(level, following):
                pass

    def levels(self) -> list[int]:
        """How many arcs with room lie between the source and each vertex; -1: no way."""
        level = [-1] * len(self.out)
        level[0] = 0
        queue = deque((0,))
        head, left, out = self.head, self.left, self.out
        while queue:
            v = queue.popleft()
            for k in out[v]:
                if left[k] and level[head[k]] < 0:
                    level[head[k]] = level[v] + 1
                    queue.append(head[k])
        return level

    def push(self, level: list[int], following: list[int]) -> int:
        """Send what one shortest way takes; 0 when there is none left."""
        head, left, out = self.head, self.left, self.out
        way: list[int] = []
        v = 0
        while v != 1:
            arcs = out[v]
            while following[v] < len(arcs):
                k = arcs[following[v]]
                if left[k] and level[head[k]] == level[v] + 1:
                    way.append(k)
                    v = head[k]
                    break
                following[v] += 1
            else:  # a dead end: go back, and not this way again
                if not way:
                    return 0
                v = head[way.pop() ^ 1]
                following[v] += 1
        amount = min(left[k] for k in way)
        for k in way:
            left[k] -= amount
            left[k ^ 1] += amount
        return amount
