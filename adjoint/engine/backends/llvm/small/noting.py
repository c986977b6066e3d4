"""Putting an operation on the tape, natively.

Note [noting]
    What the tape keeps of an operation is decided by its plan (`autodiff.tape.tape_plan`), and to
    follow one takes Python longer than a kernel of few elements. So a plan that asks for nothing
    rare says so in words (`TapePlan.noted`), and native code makes the node: edges, saved values
    and their versions, and specs of operands that are not like the result. Whatever it does not
    know it leaves as it was, and Python's own way is gone (`autodiff.tape.tape.attach`): for views
    whose base was written to, results that are not of a usual dtype, inference tensors.

    Where anything is made, the collector may run, and with it any Python code, which may give a
    tensor another node, base or chain. So what was read of one is held before anything is made.
    What is raised by Python code that is called here (an interrupt, say) is raised.
"""

from __future__ import annotations

from adjoint.engine.autodiff.tape.node import SEQUENCE, specs_of
from adjoint.engine.autodiff.tape.tape import RecordNode, attach
from adjoint.engine.autodiff.tape.tape_plan import (
    NOTED_AT_MOST,
    NOTED_CHECKS,
    NOTED_OUTPUTS,
    NOTED_SAVES,
    NOTED_SPECS,
    TapePlan,
)
from adjoint.engine.backends.llvm.runtime.peeking import HEAD, slow_address
from adjoint.engine.backends.llvm.small import calling, viewing
from adjoint.engine.backends.llvm.small.comparing import TUPLE
from adjoint.engine.backends.llvm.small.noted_tensors import (
    CARRIES,
    ON_HOST,
    UNUSUAL,
    NotedArrays,
    tensors_text,
)
from adjoint.engine.backends.llvm.small.searching import OPERANDS, PARAMETERS, REST, search
from adjoint.engine.backends.llvm.small.viewing import DONE, RAISED, UNKNOWN
from adjoint.engine.core.object_layout import slot_offset
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import NO_GRAD, Tensor

# Versions that nodes note, each tuple once: many are alike, and each would be one more object for
# the collector to look at while its node is on the tape.
SHARED_VERSIONS: dict[tuple[int, ...], tuple[int, ...]] = {}
SHARED_AT_MOST = 4096  # of them; then they are forgotten
NAMES = ("note", "show", "meet_noted", "meet_rules")  # the functions that Python calls
_TENSOR = (
    "_array", "_base", "_chain", "_grad_meta", "_node", "_nr", "_requires_grad", "_storage",
)  # fmt: skip
_NODE = (
    "edges", "extra", "out_specs", "outputs", "params", "plan", "saved", "sequence", "specs",
    "versions",
)  # fmt: skip
# The arrays that a record's program gives, or a rule's, which is where rows are or a function of
# arrays; what is none is handed on.
COMPUTED = """
  %words = call ptr @PyTuple_GetItem(ptr %program, i64 0)
  %is.called = icmp eq ptr %words, %absent""" + calling.computed("false")
# What operations with programs, of rows or of kernels, give: a tensor, on the tape where that is
# asked for (plans) and anybody is followed. Arrays, for Python to go on with, where there are
# several, or where the tape is Python's.
NOTED = f"""{COMPUTED}
  %results = call i64 @PyTuple_Size(ptr %arrays)
  %single = icmp eq i64 %results, 1
  br i1 %single, label %one, label %hand
one:
  %array = call ptr @PyTuple_GetItem(ptr %arrays, i64 0)
  %tensor = call ptr @tensor_of(ptr %array)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %fail, label %look
look:
  %unfollowed = icmp eq ptr %plans, %absent
  br i1 %unfollowed, label %done, label %follow
follow:
  %told = call i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %tensor)
  switch i32 %told, label %done [ i32 {UNKNOWN}, label %arrays.alone i32 {RAISED}, label %drop ]
arrays.alone:
  call void @Py_DecRef(ptr %tensor)
  ret ptr %arrays
drop:
  call void @Py_DecRef(ptr %tensor)
  br label %fail
fail:
  call void @Py_DecRef(ptr %arrays)
  ret ptr null
done:
  call void @Py_DecRef(ptr %arrays)
  ret ptr %tensor"""
# The same of rules: tensors, None where an operand gets no cotangent.
RULES = f"""{COMPUTED}
  %tensors = call ptr @all_as_tensors(ptr %arrays)
  ret ptr %tensors"""


DECLARED = """
@false = external global i8
@true = external global i8
declare ptr @PyLong_FromLongLong(i64)"""


def offsets() -> dict[str, int] | None:
    """Where tensors, storages, plans and nodes keep what is read and written; None: not known."""
    places = {f"tensor.{name}": Tensor.__dict__.get(name) for name in _TENSOR}
    places["storage.version"] = Storage.__dict__.get("version")
    for name in ("handed", "noted", "small"):
        places[f"plan.{name}"] = TapePlan.__dict__.get(name)
    for name in _NODE:
        owner = next((c for c in RecordNode.__mro__ if name in c.__dict__), RecordNode)
        places[f"node.{name}"] = owner.__dict__.get(name)
    found = {name: slot_offset(place) for name, place in places.items()}
    known = {name: offset for name, offset in found.items() if offset is not None}
    return known if len(known) == len(found) else None


def symbols(object_new: int, arrays: NotedArrays = ON_HOST) -> dict[str, int]:
    """Addresses that the text names."""
    return {
        "carrying": slow_address(arrays.carrying), "silent": slow_address(arrays.silent),
        "nothing": id(None), "no_grad": id(NO_GRAD), "zero": id(0),
        "no_arguments": id(()), "object_new": object_new, "Tensor": id(Tensor),
        "sequence": id(SEQUENCE), "specs_of": id(specs_of), "attach": id(attach),
        "SHARED_VERSIONS": id(SHARED_VERSIONS),
    }  # fmt: skip


def calls_text() -> str:
    """The functions that find programs, and put what they give on the tape."""
    return "\n".join((
        search("meet_noted", (OPERANDS, PARAMETERS), NOTED, fourth="plans"),
        search("meet_rules", (OPERANDS, PARAMETERS, REST), RULES),
    ))  # fmt: skip


def text(at: dict[str, int], arrays: NotedArrays = ON_HOST) -> str:
    """The functions that put results on the tape, and make views."""
    return f"""
@nothing = external global i8
@no_grad = external global i8
@zero = external global i8
@no_arguments = external global i8
@Tensor = external global i8
@sequence = external global i8
@SHARED_VERSIONS = external global i8
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare void @PyDict_Clear(ptr)
@specs_of = external global i8
@attach = external global i8
@carrying = external global i64
@silent = external global i64
declare ptr @object_new(ptr, ptr, ptr)
declare ptr @PyIter_Next(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)

{tensors_text(at, arrays)}
define i1 @attached(ptr %record, ptr %operands, ptr %params, ptr %out) {{
entry:
  %given = call ptr @PyTuple_New(i64 4)
  %unmade = icmp eq ptr %given, null
  br i1 %unmade, label %no, label %call
call:
  call void @Py_IncRef(ptr %record)
  call void @Py_IncRef(ptr %operands)
  call void @Py_IncRef(ptr %params)
  call void @Py_IncRef(ptr %out)
  %a = call i32 @PyTuple_SetItem(ptr %given, i64 0, ptr %record)
  %b = call i32 @PyTuple_SetItem(ptr %given, i64 1, ptr %operands)
  %c = call i32 @PyTuple_SetItem(ptr %given, i64 2, ptr %params)
  %d = call i32 @PyTuple_SetItem(ptr %given, i64 3, ptr %out)
  %done = call ptr @PyObject_Call(ptr @attach, ptr %given, ptr null)
  call void @Py_DecRef(ptr %given)
  %failed = icmp eq ptr %done, null
  br i1 %failed, label %no, label %yes
yes:
  call void @Py_DecRef(ptr %done)
  ret i1 true
no:
  ret i1 false
}}
define i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %out) {{
  %outs = alloca ptr
  store ptr %out, ptr %outs
  %told = call i32 @noted(ptr %plans, ptr %operands, ptr %params, ptr %outs, i64 1)
  ret i32 %told
}}
define i32 @noted_all(ptr %plans, ptr %operands, ptr %params, ptr %results) {{
entry:
  %outs = alloca [{NOTED_AT_MOST} x ptr]
  %many = call i64 @PyTuple_Size(ptr %results)
  %few = icmp ule i64 %many, {NOTED_AT_MOST}
  %some = icmp ne i64 %many, 0
  %fine = and i1 %few, %some
  br i1 %fine, label %next, label %unlike
unlike:
  ret i32 {UNKNOWN}
next:
  %k = phi i64 [0, %entry], [%kNext, %each]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %each, label %all
each:
  %out = call ptr @PyTuple_GetItem(ptr %results, i64 %k)
  %outAt = getelementptr ptr, ptr %outs, i64 %k
  store ptr %out, ptr %outAt
  %kNext = add i64 %k, 1
  br label %next
all:
  %told = call i32 @noted(ptr %plans, ptr %operands, ptr %params, ptr %outs, i64 %many)
  ret i32 %told
}}
define void @placed_at(ptr %out, ptr %node, i64 %k) {{
  %nr = call ptr @PyLong_FromLongLong(i64 %k)
  %nodeBefore = call ptr @held(ptr %out, i64 {at["tensor._node"]})
  %numberBefore = call ptr @held(ptr %out, i64 {at["tensor._nr"]})
  %askedBefore = call ptr @held(ptr %out, i64 {at["tensor._requires_grad"]})
  call void @hold(ptr %out, i64 {at["tensor._node"]}, ptr %node)
  call void @take(ptr %out, i64 {at["tensor._nr"]}, ptr %nr)
  call void @hold(ptr %out, i64 {at["tensor._requires_grad"]}, ptr @true)
  call void @Py_DecRef(ptr %nodeBefore)
  call void @Py_DecRef(ptr %numberBefore)
  call void @Py_DecRef(ptr %askedBefore)
  ret void
}}
define ptr @shared(ptr %numbers) {{
entry:
  %before = call ptr @PyDict_GetItemWithError(ptr @SHARED_VERSIONS, ptr %numbers)
  %is.new = icmp eq ptr %before, null
  br i1 %is.new, label %look, label %share
share:
  call void @Py_IncRef(ptr %before)
  call void @Py_DecRef(ptr %numbers)
  ret ptr %before
look:
  call void @PyErr_Clear()
  %many = call i64 @PyDict_Size(ptr @SHARED_VERSIONS)
  %full = icmp sge i64 %many, {SHARED_AT_MOST}
  br i1 %full, label %clear, label %put
clear:
  call void @PyDict_Clear(ptr @SHARED_VERSIONS)
  br label %put
put:
  %set = call i32 @PyDict_SetItem(ptr @SHARED_VERSIONS, ptr %numbers, ptr %numbers)
  %unset = icmp slt i32 %set, 0
  br i1 %unset, label %forget, label %done
forget:
  call void @PyErr_Clear()
  br label %done
done:
  ret ptr %numbers
}}
define i32 @noted(ptr %plans, ptr %operands, ptr %params, ptr %outs, i64 %many) {{
entry:
  %specsHeld = alloca ptr
  %savedHeld = alloca ptr
  %versionsHeld = alloca ptr
  store ptr null, ptr %specsHeld
  store ptr null, ptr %savedHeld
  store ptr null, ptr %versionsHeld
  %count = call i64 @PyTuple_Size(ptr %operands)
  %several = icmp ult i64 %count, {NOTED_AT_MOST + 1}
  br i1 %several, label %begin, label %unlike
unlike:
  call void @PyErr_Clear()
  ret i32 {UNKNOWN}
begin:
  %edges = call ptr @PyList_New(i64 %count)
  %no.edges = icmp eq ptr %edges, null
  br i1 %no.edges, label %unlike, label %nextEdge
nextEdge:
  %k = phi i64 [0, %begin], [%kNext, %putEdge]
  %bits = phi i64 [1, %begin], [%bitsNext, %putEdge]
  %moreEdges = icmp slt i64 %k, %count
  br i1 %moreEdges, label %eachEdge, label %edged
eachEdge:
  %x = call ptr @PyTuple_GetItem(ptr %operands, i64 %k)
  %edge = call ptr @edge_of(ptr %x)
  %no.edge = icmp eq ptr %edge, null
  br i1 %no.edge, label %unknown, label %putEdge
putEdge:
  %e = call i32 @PyList_SetItem(ptr %edges, i64 %k, ptr %edge)
  %followed = icmp ne ptr %edge, @nothing
  %bit = zext i1 %followed to i64
  %twice = shl i64 %bits, 1
  %bitsNext = or i64 %twice, %bit
  %kNext = add i64 %k, 1
  br label %nextEdge
edged:
  %free = shl i64 1, %count
  %none.followed = icmp eq i64 %bits, %free
  br i1 %none.followed, label %nobody, label %find
nobody:
  call void @Py_DecRef(ptr %edges)
  ret i32 {DONE}
find:
  %key = call ptr @PyLong_FromLongLong(i64 %bits)
  %plan = call ptr @PyDict_GetItemWithError(ptr %plans, ptr %key)
  call void @Py_DecRef(ptr %key)
  %no.plan = icmp eq ptr %plan, null
  %useless = icmp eq ptr %plan, @nothing
  %unplanned = or i1 %no.plan, %useless
  br i1 %unplanned, label %unknown, label %planned
planned:
  %noted = call ptr @held(ptr %plan, i64 {at["plan.noted"]})
  %silent = icmp eq ptr %noted, @nothing
  br i1 %silent, label %unknown, label %read
read:
  %wordsArray = call ptr @PyTuple_GetItem(ptr %noted, i64 0)
  %nodeClass = call ptr @PyTuple_GetItem(ptr %noted, i64 1)
  %words = call ptr @held(ptr %wordsArray, i64 {HEAD})
  %outputsAt = getelementptr i64, ptr %words, i64 {NOTED_OUTPUTS}
  %outputs = load i64, ptr %outputsAt
  %as.many = icmp eq i64 %outputs, %many
  br i1 %as.many, label %nextOut, label %unknown
nextOut:
  %o = phi i64 [0, %read], [%oNext, %eachOut]
  %moreOuts = icmp slt i64 %o, %many
  %oNext = add i64 %o, 1
  br i1 %moreOuts, label %eachOut, label %specs
eachOut:
  %resultAt = getelementptr ptr, ptr %outs, i64 %o
  %someResult = load ptr, ptr %resultAt
  %usual = call i32 @carried(ptr %someResult)
  %is.unusual = icmp eq i32 %usual, {UNUSUAL}
  br i1 %is.unusual, label %unknown, label %nextOut
specs:
  %first = load ptr, ptr %outs
  %outArray = call ptr @held(ptr %first, i64 {at["tensor._array"]})
  %specsWord = getelementptr i64, ptr %words, i64 {NOTED_SPECS}
  %wantsSpecs = load i64, ptr %specsWord
  %wanted = icmp ne i64 %wantsSpecs, 0
  br i1 %wanted, label %makeSpecs, label %check
check:
  %checksAt = getelementptr i64, ptr %words, i64 {NOTED_CHECKS}
  %checks = load i64, ptr %checksAt
  br label %nextCheck
nextCheck:
  %c = phi i64 [0, %check], [%cNext, %compare]
  %moreChecks = icmp slt i64 %c, %checks
  %cNext = add i64 %c, 1
  br i1 %moreChecks, label %eachCheck, label %noSpecs
eachCheck:
  %positionAt = getelementptr i64, ptr %checksAt, i64 %cNext
  %position = load i64, ptr %positionAt
  %operand = call ptr @PyTuple_GetItem(ptr %operands, i64 %position)
  %operandArray = call ptr @held(ptr %operand, i64 {at["tensor._array"]})
  %operandClass = call ptr @class_of(ptr %operandArray)
  %operandIsArray = call i1 @is_a(ptr %operandClass, i64 {arrays.type})
  br i1 %operandIsArray, label %compare, label %unknown
compare:
  %like = call i1 @alike(ptr %operandArray, ptr %outArray)
  br i1 %like, label %nextCheck, label %makeSpecs
noSpecs:
  call void @Py_IncRef(ptr @nothing)
  store ptr @nothing, ptr %specsHeld
  br label %save
makeSpecs:
  %given.specs = call ptr @PyTuple_New(i64 1)
  %no.given = icmp eq ptr %given.specs, null
  br i1 %no.given, label %unknown, label %callSpecs
callSpecs:
  call void @Py_IncRef(ptr %operands)
  %s = call i32 @PyTuple_SetItem(ptr %given.specs, i64 0, ptr %operands)
  %made = call ptr @PyObject_Call(ptr @specs_of, ptr %given.specs, ptr null)
  call void @Py_DecRef(ptr %given.specs)
  store ptr %made, ptr %specsHeld
  %no.specs = icmp eq ptr %made, null
  br i1 %no.specs, label %clean, label %save
save:
  %savesAt = getelementptr i64, ptr %words, i64 {NOTED_SAVES}
  %saves = load i64, ptr %savesAt
  %keeps.none = icmp eq i64 %saves, 0
  br i1 %keeps.none, label %shareNone, label %makeLists
shareNone:
  call void @Py_IncRef(ptr @no_arguments)
  call void @Py_IncRef(ptr @no_arguments)
  store ptr @no_arguments, ptr %savedHeld
  store ptr @no_arguments, ptr %versionsHeld
  br label %make
makeLists:
  %saved = call ptr @PyList_New(i64 %saves)
  %versions = call ptr @PyTuple_New(i64 %saves)
  store ptr %saved, ptr %savedHeld
  store ptr %versions, ptr %versionsHeld
  %no.saved = icmp eq ptr %saved, null
  %no.versions = icmp eq ptr %versions, null
  %no.lists = or i1 %no.saved, %no.versions
  br i1 %no.lists, label %unknown, label %nextSaved
nextSaved:
  %n = phi i64 [0, %makeLists], [%nNext, %version]
  %moreSaved = icmp slt i64 %n, %saves
  %nNext = add i64 %n, 1
  br i1 %moreSaved, label %eachSaved, label %shareVersions
eachSaved:
  %codeAt = getelementptr i64, ptr %savesAt, i64 %nNext
  %code = load i64, ptr %codeAt
  %is.result = icmp slt i64 %code, 0
  br i1 %is.result, label %result, label %given.operand
result:
  %which = sub i64 -1, %code
  %savedOutAt = getelementptr ptr, ptr %outs, i64 %which
  %savedOut = load ptr, ptr %savedOutAt
  %window = call ptr @same_window(ptr %savedOut)
  %no.window = icmp eq ptr %window, null
  br i1 %no.window, label %unknown, label %keep
given.operand:
  %kept = call ptr @PyTuple_GetItem(ptr %operands, i64 %code)
  call void @Py_IncRef(ptr %kept)
  br label %keep
keep:
  %value = phi ptr [%window, %result], [%kept, %given.operand]
  %v = call i32 @PyList_SetItem(ptr %saved, i64 %n, ptr %value)
  %has.version = call i1 @is_tensor(ptr %value)
  br i1 %has.version, label %look, label %version
look:
  %storage = call ptr @held(ptr %value, i64 {at["tensor._storage"]})
  %writes = call ptr @held(ptr %storage, i64 {at["storage.version"]})
  %written = call i64 @PyLong_AsLongLong(ptr %writes)
  %inferred = icmp slt i64 %written, 0
  br i1 %inferred, label %unknown, label %version
version:
  %now = phi ptr [@zero, %keep], [%writes, %look]
  call void @Py_IncRef(ptr %now)
  %w = call i32 @PyTuple_SetItem(ptr %versions, i64 %n, ptr %now)
  br label %nextSaved
shareVersions:
  %shared = call ptr @shared(ptr %versions)
  store ptr %shared, ptr %versionsHeld
  br label %make
make:
  %node = call ptr @object_new(ptr %nodeClass, ptr @no_arguments, ptr null)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %unknown, label %count.on
count.on:
  %turn = call ptr @PyIter_Next(ptr @sequence)
  %no.turn = icmp eq ptr %turn, null
  br i1 %no.turn, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %node)
  br label %unknown
fill:
  %howMany = call ptr @PyLong_FromLongLong(i64 %many)
  %specsMade = load ptr, ptr %specsHeld
  %savedMade = load ptr, ptr %savedHeld
  %versionsMade = load ptr, ptr %versionsHeld
  call void @take(ptr %node, i64 {at["node.edges"]}, ptr %edges)
  call void @take(ptr %node, i64 {at["node.sequence"]}, ptr %turn)
  call void @take(ptr %node, i64 {at["node.specs"]}, ptr %specsMade)
  call void @take(ptr %node, i64 {at["node.saved"]}, ptr %savedMade)
  call void @take(ptr %node, i64 {at["node.versions"]}, ptr %versionsMade)
  call void @take(ptr %node, i64 {at["node.outputs"]}, ptr %howMany)
  call void @hold(ptr %node, i64 {at["node.extra"]}, ptr @nothing)
  call void @hold(ptr %node, i64 {at["node.plan"]}, ptr %plan)
  call void @hold(ptr %node, i64 {at["node.params"]}, ptr %params)
  call void @hold(ptr %node, i64 {at["node.out_specs"]}, ptr @nothing)
  br label %nextPlace
nextPlace:
  %p = phi i64 [0, %fill], [%pNext, %eachPlace], [%pNext, %putPlace]
  %morePlaces = icmp slt i64 %p, %many
  %pNext = add i64 %p, 1
  br i1 %morePlaces, label %eachPlace, label %placed.all
eachPlace:
  %placeAt = getelementptr ptr, ptr %outs, i64 %p
  %out = load ptr, ptr %placeAt
  %kindOfOut = call i32 @carried(ptr %out)
  %carries = icmp eq i32 %kindOfOut, {CARRIES}
  br i1 %carries, label %putPlace, label %nextPlace
putPlace:
  call void @placed_at(ptr %out, ptr %node, i64 %p)
  br label %nextPlace
placed.all:
  call void @Py_DecRef(ptr %node)
  ret i32 {DONE}
unknown:
  call void @PyErr_Clear()
  br label %clean
clean:
  %told = phi i32 [{UNKNOWN}, %unknown], [{RAISED}, %callSpecs]
  call void @Py_DecRef(ptr %edges)
  %specsLeft = load ptr, ptr %specsHeld
  %savedLeft = load ptr, ptr %savedHeld
  %versionsLeft = load ptr, ptr %versionsHeld
  call void @Py_DecRef(ptr %specsLeft)
  call void @Py_DecRef(ptr %savedLeft)
  call void @Py_DecRef(ptr %versionsLeft)
  ret i32 %told
}}
define ptr @note(ptr %self, ptr %args, i64 %given) {{
  %plans = load ptr, ptr %args
  %operandsAt = getelementptr ptr, ptr %args, i64 1
  %operands = load ptr, ptr %operandsAt
  %paramsAt = getelementptr ptr, ptr %args, i64 2
  %params = load ptr, ptr %paramsAt
  %outAt = getelementptr ptr, ptr %args, i64 3
  %out = load ptr, ptr %outAt
  %class = call ptr @class_of(ptr %out)
  %several = call i1 @is_a(ptr %class, i64 {TUPLE})
  br i1 %several, label %all, label %one
one:
  %told.one = call i32 @noted_one(ptr %plans, ptr %operands, ptr %params, ptr %out)
  br label %look
all:
  %told.all = call i32 @noted_all(ptr %plans, ptr %operands, ptr %params, ptr %out)
  br label %look
look:
  %told = phi i32 [%told.one, %one], [%told.all, %all]
  %raised = icmp eq i32 %told, {RAISED}
  br i1 %raised, label %raise, label %tell
raise:
  ret ptr null
tell:
  %done = icmp eq i32 %told, {DONE}
  %answer = select i1 %done, ptr @true, ptr @false
  call void @Py_IncRef(ptr %answer)
  ret ptr %answer
}}
{viewing.text(at, arrays.type)}"""
