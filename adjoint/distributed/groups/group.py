"""Process groups: some processes, in an order, and the channel between them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from adjoint.distributed.communication.progress import PROGRESS, Channel
from adjoint.distributed.constants import seconds_of
from adjoint.distributed.engines.base import ProcessEngine
from adjoint.distributed.store.base import Store
from adjoint.engine.core.state.processes import STATE, default_group


class Backend(str):
    """The name of what carries messages: `Backend("GLOO") == "gloo"`."""

    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UNDEFINED = "undefined"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, MPI]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL}
    __slots__ = ()

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name, received {name!r}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Processes that take part in collectives together.

    Made by `init_process_group` (all processes) and `new_group` (some of them).
    """

    def __init__(
        self,
        engine: ProcessEngine,
        channel: Channel,
        backend: str,
        store: Store | None,
        desc: str = "",
    ) -> None:
        self.engine = engine
        self.channel = channel
        self.backend = backend
        self.store = store
        self.group_desc = desc or "undefined"
        self.device_channels: dict[str, Any] = {}  # of other engines, made at first use

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks in the world."""
        return self.channel.members

    def rank(self) -> int:
        """Which member this process is."""
        return self.channel.data.rank

    def size(self) -> int:
        """How many members there are."""
        return self.channel.data.size

    def name(self) -> str:
        """What carries its messages."""
        return self.backend

    @property
    def group_name(self) -> str:
        return self.channel.name

    def __repr__(self) -> str:
        return (
            f"<ProcessGroup {self.group_name}: rank {self.rank()} of {list(self.ranks)} on "
            f"{self.engine.name}>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a ProcessGroup cannot be pickled: make it anew in each process")


class NonMember:
    """What `new_group` gives to processes that are not in the group."""

    def __repr__(self) -> str:
        return "<not a member of this group>"


class _Names(type):
    @property
    def WORLD(cls) -> Any:
        """All processes, or None before `init_process_group`."""
        return STATE.group


class GroupMember(metaclass=_Names):
    """`GroupMember.WORLD`: all processes; `NON_GROUP_MEMBER`: what is no group of this one's."""

    NON_GROUP_MEMBER = NonMember()


class group(metaclass=_Names):
    """`group.WORLD`: all processes, or None before `init_process_group`."""


GROUPS: dict[str, ProcessGroup] = {}  # by name: what recorded collectives refer to


def _of_ranks(ranks: list[int]) -> ProcessGroup:
    """The group of some ranks of the world, which functional collectives may be given."""
    for group in GROUPS.values():
        if list(group.ranks) == ranks:
            return group
    raise ValueError(
        f"there is no process group of the ranks {ranks}. Make it with new_group(), in all "
        "processes, and pass it."
    )


def resolve(given: Any = None) -> ProcessGroup:
    """The group a collective was given; the world's for None."""
    if given is None:
        return default_group()
    if isinstance(given, ProcessGroup):
        return given
    if isinstance(given, str):
        if given not in GROUPS:
            raise ValueError(f"there is no process group called {given!r}")
        return GROUPS[given]
    get_group = getattr(given, "get_group", None)  # a mesh of one dimension
    if get_group is not None:
        return resolve(get_group())
    if isinstance(given, NonMember):
        raise ValueError("this process is not a member of the group that was passed")
    if isinstance(given, (list, tuple)) and all(isinstance(rank, int) for rank in given):
        return _of_ranks(list(given))
    raise TypeError(f"group: expected a ProcessGroup, received {type(given).__name__}")


def is_member(given: Any) -> bool:
    """Whether this process is in a group."""
    return not isinstance(given, NonMember)


def get_rank(group: Any = None) -> int:
    """Which member of the group this process is; -1 if it is none."""
    return resolve(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """How many members the group has; -1 if this process is none."""
    return resolve(group).size() if is_member(group) else -1


def get_backend(group: Any = None) -> str:
    """What the program asked for: "gloo", "nccl" or "mpi".

    On CPUs, "gloo" and "mpi" are both answered by MPI; `group.engine.name` says what carries.
    """
    return Backend(resolve(group).backend)


def get_backend_config(group: Any = None) -> str:
    """The backend of each kind of device: "cpu:gloo,cuda:gloo" where "gloo" was asked for."""
    asked = str(resolve(group).backend)
    if ":" in asked:
        return asked
    return "cuda:nccl" if asked == "nccl" else f"cpu:{asked},cuda:{asked}"


def get_default_backend_for_device(device: Any) -> str:
    """The backend that a kind of device is served by: "gloo" for "cpu"."""
    kind = str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is no member of a group."""
    return not is_member(group)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The members' ranks in the world."""
    return list(resolve(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a group's member."""
    members = resolve(group).ranks
    if not 0 <= group_rank < len(members):
        raise ValueError(f"Group rank {group_rank} is not part of group {resolve(group)}")
    return members[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The place in a group of a rank in the world."""
    members = resolve(group).ranks
    if global_rank not in members:
        raise ValueError(f"Global rank {global_rank} is not part of group {resolve(group)}")
    return members.index(global_rank)


class _Counter:
    groups = 0


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some of the processes; all processes call it, in the same order.

    Args:
        ranks: the members' ranks in the world; all unless given.
        timeout: how long collectives of the group wait; the world's limit unless given.
        backend: the name `get_backend` says; the world's unless given.
        pg_options: accepted as PyTorch has it.
        use_local_synchronization: whether only members call it; then nothing is compared.
        group_desc: what the group is for.
        device_id: accepted as PyTorch has it.

    Returns:
        The group, or `GroupMember.NON_GROUP_MEMBER` for a process that is not in it.
    """
    world = default_group()
    members = sorted(range(world.size()) if ranks is None else ranks)
    if len(set(members)) < len(members) or not set(members) <= set(range(world.size())):
        raise ValueError(
            f"new_group: expected different ranks from 0 to {world.size() - 1}, received {ranks}"
        )
    if not members:
        raise ValueError("new_group: expected at least one rank, received none")
    if world.size() > 1 and not use_local_synchronization:
        same_everywhere(world.channel, f"new_group({members})")
    _Counter.groups += 1
    name = f"group{_Counter.groups}"
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    limit = world.channel.timeout if timeout is None else seconds_of(timeout)
    channel = open_channel(world.channel, members, name, limit)
    created = ProcessGroup(
        world.engine, channel, backend or world.backend, world.store, group_desc or name
    )
    GROUPS[name] = created
    return created


def same_everywhere(channel: Channel, what: str) -> None:
    """Wait for all processes; an error on every one if they have called different things."""
    PROGRESS.wait(PROGRESS.submit(channel, what, lambda: channel.data.barrier()))


def open_channel(world: Channel, members: Sequence[int], name: str, timeout: float) -> Channel:
    """A channel among some members of the world."""

    def split() -> Channel:
        data = world.data.split(members)
        check = None if len(members) == 1 else world.data.split(members)
        return Channel(data, check, tuple(members), name, timeout)

    return PROGRESS.blocking(f"new_group({list(members)})", split, timeout)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | float | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The part of a group that this process is in; all processes of the group call it.

    Args:
        parent_pg: the group to split; the world unless given.
        split_ranks: the ranks, in that group, of each part.
        timeout: how long collectives of the part wait; the world's limit unless given.
        pg_options: accepted as PyTorch has it.
        group_desc: what the parts are for.

    Returns:
        The part, or None for a process that is in none.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    world = get_process_group_ranks(parent_pg)
    flat = [rank for part in split_ranks for rank in part]
    if len(set(flat)) < len(flat) or not set(flat) <= set(range(len(world))):
        raise ValueError(
            f"split_group: expected different ranks from 0 to {len(world) - 1}, received "
            f"{[list(part) for part in split_ranks]}"
        )
    if len(world) > 1:
        parts = [list(part) for part in split_ranks]
        same_everywhere(resolve(parent_pg).channel, f"split_group({parts})")
    own = None
    for part in split_ranks:
        members = [world[rank] for rank in part]
        created = new_group(members, timeout, None, None, True, group_desc)
        if created is not GroupMember.NON_GROUP_MEMBER:
            own = created
    return own


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbours each; this process's, and all of them."""
    size = resolve(group).size()
    count = group_size or int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if count <= 0 or size % count:
        raise ValueError(
            f"new_subgroups: {size} processes cannot be divided into groups of {count}"
        )
    parts = [list(range(at, at + count)) for at in range(0, size, count)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the given ranks; this process's (or None), and all of them."""
    seen = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(seen)) < len(seen):
        raise ValueError("new_subgroups_by_enumeration: a rank is in more than one group")
    mine, groups = None, []
    for ranks in ranks_per_subgroup_list:
        created = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(created)
        if is_member(created):
            mine = created
    return mine, groups
