"""The state of one observation: what was read, what was written, what is new.

Every read of a place that can change becomes a guard, every write to something that was there
before becomes an effect. Objects made by the observed code itself are fresh: they need neither.
"""

from __future__ import annotations

import _thread
import gc
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import CaptureError, is_ours

from .engine import Engine
from .errors import Refusal
from .guards.guard import Guard
from .journal import Journal
from .locations import (
    Answer,
    Cell,
    Contents,
    Index,
    Item,
    Kind,
    Length,
    Location,
    Member,
    Referred,
    Slot,
    Table,
    members,
)
from .plain import (
    MISSING,
    NUMBERS,
    PLAIN,
    ObjectIdentity,
    can_change,
    count,
    element_at,
    elements,
    is_a,
    own_class,
)
from .ways import Ways

if TYPE_CHECKING:
    from .c.upcoming import Ahead
    from .frames import Frame


@dataclass(frozen=True, slots=True)
class Effect:
    """A write, as the call that does it again."""

    do: Callable[..., Any]
    args: tuple[Any, ...]  # what is written to comes first
    line: str


Keep = Callable[[Any], Callable[[], None]]  # what puts a generator back to where it is


class DrawnNumber:
    """A number that each call draws anew, before anything else is done."""

    __slots__ = ("generator", "keep", "take", "value")

    def __init__(
        self, take: Callable[[], Any], value: Any, generator: Any, keep: Keep | None = None
    ) -> None:
        self.take, self.value, self.generator = take, value, generator
        self.keep = keep  # how to put the generator back; None of a place, which is only read

    def again(self) -> None:
        """Draw."""
        self.value = self.take()

    def now(self) -> Any:
        """What was drawn last."""
        return self.value


def keep(draws: Iterable[DrawnNumber]) -> list[Callable[[], None]]:
    """What puts the generators of draws back to where they are."""
    last_draws = {id(draw.generator): draw for draw in draws if draw.keep is not None}
    return [draw.keep(draw.generator) for draw in last_draws.values() if draw.keep is not None]


class Recorder:
    """Collects guards, effects and fresh objects while code is executed."""

    def __init__(
        self,
        engine: Engine,
        call: Callable[..., Any],
        given: Mapping[int, Any] | None = None,
        moving: Collection[Location] = (),
    ) -> None:
        self.engine = engine
        self.call = call  # follows a function; see `calling`
        self.refusal: CaptureError | None = None
        self.raised: BaseException | None = None  # by the last `raise` that was followed
        self.guards: dict[tuple[Any, ...], Guard] = {}  # by the place's token
        self.effects: list[Effect] = []
        self.journal = Journal()
        self.fresh: dict[int, Any] = {}
        self.given = given or {}  # containers of the call's arguments: the caller vouches for them
        self.moving = frozenset(moving)  # places whose numbers are read at each call
        self.frames: list[Frame] = []
        self.ways = Ways()
        self.tables = self.ways.tables
        self.views: dict[int, tuple[Any, Any]] = {}  # views of containers that are not fresh
        self.lookups: dict[tuple[type, str], Any] = {}
        self.ordinary: dict[tuple[type, str], Any] = {}  # see `attributes.get`
        self.kinds: set[int] = set()  # objects whose class is guarded
        self.draws: list[DrawnNumber] = []  # numbers that are read or drawn when a call begins
        self.moved: dict[Location, Any] = {}
        self.weakly: dict[int, Any] = {}  # objects reached by weak references, by id, and these
        self.ahead: dict[int, Ahead] = {}  # iterators from outside that were taken from
        self.met_moving: set[Location] = set()
        self.watched: set[int] | None = None  # objects made meanwhile, by id: see `changes`
        self.writes = 0
        self.most_frames = 1000
        self.is_over = False
        self.catches = False  # whether observed code may end exceptions
        self.alive: list[Any] = []  # so that ids stay unique
        self.shared: dict[Any, Any] = {}  # what handlers keep for the whole recording

    # -- messages -----------------------------------------------------------------------------

    def line(self) -> str:
        """The line of the observed code: the user's, where a layer of the framework is at work."""
        if not self.frames:
            return "the call"
        users = (frame for frame in reversed(self.frames) if not is_ours(frame.code))
        return next(users, self.frames[-1]).line()

    def refuse(self, what: str, why: str, remedy: str) -> Refusal:
        """An error that names the line."""
        refusal = self.refusal = Refusal(what, why, remedy, self.line())
        return refusal

    # -- what is new --------------------------------------------------------------------------

    def new(self, value: Any) -> Any:
        """Note that the observed code made this object."""
        self.fresh[id(value)] = value
        if self.watched is not None:
            self.watched.add(id(value))
        return value

    def new_generator(self, value: Any) -> Any:
        """Note a generator of observed code, which is closed when nobody holds it any more."""
        number, fresh = id(value), self.fresh
        fresh[number] = weakref.ref(value, lambda gone: fresh.pop(number, None))
        if self.watched is not None:
            self.watched.add(number)
        return value

    def let_go(self, value: Any) -> None:
        """Hold an object no longer that nobody else holds."""
        self.fresh.pop(id(value), None)
        if self.watched is not None:
            self.watched.discard(id(value))

    def is_fresh(self, value: Any) -> bool:
        """Whether the observed code made this object."""
        return id(value) in self.fresh or self.engine.is_new(value)

    def needs_guards(self, value: Any) -> bool:
        """Whether somebody outside could change what is in this object."""
        return not (id(value) in self.fresh or id(value) in self.given)

    def is_given(self, value: Any) -> bool:
        """Whether this is an argument of the call: another object at the next one."""
        return id(value) in self.given or self.engine.is_given(value)

    def identified(self, key: Any) -> None:
        """Something depends on which object this is, or on which are in it."""
        if type(key) is tuple:
            for part in key:
                self.identified(part)
        elif type(key) is ObjectIdentity:
            if self.is_given(key.of) or not self.is_fresh(key.of):
                self.engine.identified(self, key.of)
        elif self.is_given(key):
            self.engine.identified(self, key)

    def asked_for(self, obj: Any, table: dict[Any, Any], name: str) -> None:
        """An attribute that an argument has or lacks is looked for: another may not, or have it."""
        if not self.engine.is_given(obj):
            return
        before = self.journal.original(table)
        attributes = table if before is MISSING else dict(before)
        if name not in attributes:
            if name not in table:
                self.engine.lacks(obj, name)
        elif table.get(name, MISSING) is attributes[name]:
            self.engine.identified(self, obj)

    # -- reads --------------------------------------------------------------------------------

    def read(self, place: Location, value: Any) -> Any:
        """Note what a place holds; a number that is known to change is read at each call."""
        if self.moving and place in self.moving:
            self.identified(place.key)
            if type(value) in NUMBERS and type(value) is not bool:
                return self._moving(place, value)
            given = self.engine.given_at(place, value)
            if given is not MISSING:
                self.met_moving.add(place)
                return given
        return self.guard(place, value)

    def guard(self, place: Location, value: Any) -> Any:
        """Have the recording depend on what a place holds."""
        reference = self.weakly.get(id(place.owner)) if self.weakly else None
        if reference is not None and is_a(place, (Kind, Slot, Table)):
            place = Referred(reference, (type(place), place.key))
        token = place.token()
        if token not in self.guards:
            self._add(token, place, value)
        return value

    def _add(self, token: tuple[Any, ...], place: Location, value: Any) -> None:
        if type(place.key) not in PLAIN:
            self.identified(place.key)
        frames = self.frames
        where = (frames[-1].code, frames[-1].pc - 1) if frames else None
        self.guards[token] = Guard(place, value, where, self.ways)
        if type(value) not in PLAIN and place.__class__ is not Contents:
            self.ways.locations.setdefault(id(value), place)

    def _moving(self, place: Location, value: Any) -> Any:
        """What stands for a number that is read when a call begins; its type is a guard."""
        symbol = self.moved.get(place)
        if symbol is None:
            reader = DrawnNumber(place.now, value, place)
            self.draws.append(reader)
            kind = Answer(kind_at, (place,))
            self._add(kind.token(), kind, type(value))
            described = self.ways.described(place)
            symbol = self.engine.symbol(self, place.now, reader.now, value, described)
            self.moved[place] = symbol
        return symbol

    def item(self, table: dict[Any, Any], key: Any) -> Any:
        """What a dict holds under a key, or MISSING."""
        value = dict.get(table, key, MISSING)
        if id(table) in self.fresh or id(table) in self.given:
            return value
        written = self.journal.written.get(id(table), MISSING)
        if written is None:
            self.contents(table)
        elif written is MISSING or key not in written:
            token = (Item, id(table), key.__class__, key)
            if token in self.guards:
                return value
            if self.moving:
                return self.read(Item(table, key), value)
            self._add(token, Item(table, key), value)
        return value

    def element(self, sequence: Any, index: int) -> Any:
        """What a list or deque holds at an index; raises as it does."""
        if not self.needs_guards(sequence):
            return element_at(sequence, index)
        if id(sequence) in self.journal.copies:
            written, size = self.journal.written[id(sequence)], count(sequence)
            if written is not None and -size <= index < size:
                if index % size in written:
                    return element_at(sequence, index)
                return self.read(Index(sequence, index), element_at(sequence, index))
            self.contents(sequence)
            return element_at(sequence, index)
        try:
            value = element_at(sequence, index)
        except IndexError:
            self.guard(Length(sequence), count(sequence))
            raise
        return self.read(Index(sequence, index), value)

    def length(self, container: Any) -> Any:
        """How many elements a container has."""
        now = count(container)
        if not self.needs_guards(container):
            return now
        original = self.journal.original(container)
        if original is MISSING:
            return self.read(Length(container), now)
        if id(container) in self.journal.grown:
            return self.read(Length(container), len(original)) + (now - len(original))
        if is_a(container, dict):
            self.keys(container)
        else:
            self.contents(container)
        return now

    def contents(self, container: Any) -> None:
        """Have all that was in a container guarded."""
        if not self.needs_guards(container):
            return
        before = self.journal.original(container)
        mapping = is_a(container, dict)
        unordered = is_a(container, (set, frozenset))
        place = Contents(container, "items" if mapping else "set" if unordered else None)
        if place.token() in self.guards:
            return
        if before is MISSING:
            self.guard(place, place.now())
        elif mapping:
            self.guard(place, (*[k for k, _ in before], *[v for _, v in before]))
        else:
            self.guard(place, members(before) if unordered else tuple(before))

    def keys(self, table: dict[Any, Any]) -> None:
        """Have the keys of a dict guarded, in their order."""
        if not self.needs_guards(table):
            return
        before = self.journal.original(table)
        keys = tuple(elements(table)) if before is MISSING else tuple(k for k, _ in before)
        self.guard(Contents(table, "keys"), keys)

    def member(self, container: Any, key: Any) -> bool:
        """Whether something is in a set."""
        is_in = bool(own_class(container).__contains__(container, key))
        if self.needs_guards(container):
            if id(container) in self.journal.copies:
                self.contents(container)
            else:
                self.guard(Member(container, key), is_in)
        return is_in

    def shown(self, view: Any) -> Any:
        """The container that a view shows, if it is not new; None of a new one."""
        if id(view) in self.views:
            return self.views[id(view)][1]
        if id(view) in self.fresh:
            return None
        (owner,) = gc.get_referents(view)
        self.views[id(view)] = view, owner
        return owner

    def cell(self, cell: Any, name: str) -> Any:
        """What a variable shared by functions holds, or MISSING."""
        try:
            value = cell.cell_contents
        except ValueError:
            value = MISSING
        if id(cell) in self.fresh or self.journal.has_field(cell, "cell"):
            return value
        return self.read(Cell(cell, name), value)

    def answer(self, place: Location, key: Any = None) -> Any:
        """What any other place holds, unless this observation wrote there."""
        value = place.now()
        if not self.needs_guards(place.owner) or self.journal.has_field(place.owner, key):
            return value
        return self.read(place, value)

    def attributes(self, obj: Any) -> dict[Any, Any] | None:
        """The dict of an object's attributes, if it has one."""
        cls = type(obj)
        by_thread = is_a(obj, _thread._local)
        if not cls.__dictoffset__ and not by_thread:
            return None
        try:
            table = obj.__dict__ if by_thread else object.__getattribute__(obj, "__dict__")
        except AttributeError:
            return None
        if type(table) is not dict and not is_a(table, dict):
            return None
        if id(table) in self.tables:
            return table
        self.alive.append(table)
        self.tables[id(table)] = obj
        if self.is_fresh(obj):
            self.fresh[id(table)] = table
        elif id(obj) in self.given:
            self.given = {**self.given, id(table): self.given[id(obj)]}
        elif by_thread:
            self.guard(Answer(getattr, (obj, "__dict__")), table)
        else:
            self.guard(Table(obj), table)
        return table

    # -- writes -------------------------------------------------------------------------------

    def writes_to(self, owner: Any) -> bool:
        """Something is about to be written to; whether that must be done again: it is not new."""
        # The attributes of an object that was there before may be met only now.
        if self.watched is not None and id(self.tables.get(id(owner), owner)) not in self.watched:
            self.writes += 1
        return id(owner) not in self.fresh

    def changes(self, ask: Callable[[], Any]) -> bool:
        """Whether something changes by a call that was there before it."""
        made, writes = self.watched, self.writes
        self.watched, self.writes = set(), 0
        try:
            ask()
            return self.writes > 0
        finally:
            if made is not None:
                made |= self.watched
            self.watched, self.writes = made, writes + self.writes

    def effect(self, do: Callable[..., Any], *args: Any) -> None:
        """Note what must be done again."""
        self.writes += 1
        self.alive.append(args)
        self.effects.append(Effect(do, args, self.line()))

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set a key of a dict."""
        if self.writes_to(table):
            self.journal.writes(table, key)
            self.effect(raw_set(table), table, key, value)
        raw_set(table)(table, key, value)

    def has_put(self, table: dict[Any, Any], key: Any) -> bool:
        """Whether a key of a dict was set, deleted or may have been."""
        written = self.journal.written.get(id(table), ())
        return written is None or key in written

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        """Delete a key of a dict that has it."""
        if self.writes_to(table):
            self.journal.writes(table, key)
            self.effect(raw_delete(table), table, key)
        raw_delete(table)(table, key)

    def change(self, container: Any, do: Callable[..., Any], *args: Any) -> Any:
        """Call what changes a container."""
        if self.writes_to(container):
            self.journal.overwrites(container)
            self.effect(do, container, *args)
        return do(container, *args)

    def put_element(self, owner: Any, do: Callable[..., Any], index: int, value: Any) -> None:
        """Set an element of a list whose length is known."""
        if self.writes_to(owner):
            self.journal.writes(owner, index % count(owner))
            self.effect(do, owner, index, value)
        do(owner, index, value)

    def put_cell(self, cell: Any, value: Any) -> None:
        """Set a variable shared by functions; MISSING unbinds it."""
        if self.writes_to(cell):
            before = cell_value(cell)
            self.journal.field(cell, "cell", lambda: set_cell(cell, before), before)
            self.effect(set_cell, cell, value)
        set_cell(cell, value)

    def put_field(
        self, owner: Any, key: Any, before: Any, put: Callable[..., Any], value: Any
    ) -> None:
        """Set some other place of an object: `put(owner, key, value)`, MISSING for nothing."""
        if self.writes_to(owner):
            self.journal.field(owner, key, lambda: put(owner, key, before), before)
            self.effect(put, owner, key, value)
        put(owner, key, value)

    def draw(
        self, generator: Any, take: Callable[[], Any], keep: Callable[[Any], Callable[[], None]]
    ) -> Any:
        """A number drawn from a generator: drawn again at each call, in the same order."""
        if not self.writes_to(generator):
            return take()
        self.keep_generator(generator, keep)
        drawn = DrawnNumber(take, take(), generator, keep)
        self.draws.append(drawn)
        return self.engine.drawn(self, drawn)

    def keep_generator(self, generator: Any, keep: Keep) -> None:
        """Have a generator put back when the recording is over."""
        if self.journal.has_field(generator, "state"):
            return
        try:
            undo = keep(generator)
        except NotImplementedError:
            raise self.refuse(
                f"a draw from a {type(generator).__name__}", "it cannot be put back",
                "Draw outside and pass the number.",
            ) from None  # fmt: skip
        self.journal.field(generator, "state", undo)

    def give_up(self) -> None:
        """Have Python's state as it was, and hold nothing of it: Python may do the call now.

        Generators that go later do nothing more.
        """
        self.journal.roll_back()
        self.forget()
        self.journal = Journal()
        for met in (self.guards, self.effects, self.frames, self.draws, self.shared):
            met.clear()

    def forget(self) -> None:
        """Let go of the objects that were met: the observation is over."""
        tables = self.ways.tables
        for key in [key for key, own in tables.items() if id(own) in self.weakly]:
            del tables[key]
        self.tables = tables
        registers: tuple[Any, ...] = (
            self.alive, self.fresh, self.views, self.lookups, self.ahead, self.weakly, self.moved,
        )  # fmt: skip
        self.is_over, self.given = True, {}
        for met in registers:
            met.clear()

    def concrete(self, value: Any) -> Any:
        """A value without symbols: those in it are pinned."""
        return self.engine.concrete(value)


def _own_class(table: Any) -> Any:
    return next(c for c in type(table).__mro__ if not can_change(c))


def raw_set(table: dict[Any, Any]) -> Callable[..., Any]:
    """How a dict's own class sets a key, whatever subclasses do besides."""
    return _own_class(table).__setitem__


def raw_delete(table: dict[Any, Any]) -> Callable[..., Any]:
    """How a dict's own class deletes a key."""
    return _own_class(table).__delitem__


def kind_at(place: Location) -> type:
    """The type of what a place holds."""
    return type(place.now())


def cell_value(cell: Any) -> Any:
    """What a cell holds, or MISSING."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def set_cell(cell: Any, value: Any) -> None:
    """Bind or unbind a cell."""
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value
