"""A process that reads hostile files one after another and says what became of each.

`python -m tests.hostile.child FOLDER READER FIRST COUNT NAME...` reads so many mutations of a
reader's files ("all": of every reader's), then crafted files. Before each a line says which; after it, a line of JSON: the outcome, seconds of
processor time, bytes above what the process had. If the process dies, the last line says on what.
"""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
import re
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import adjoint as ad
from tests.hostile import crafted
from tests.hostile.mutations import mutated
from tests.hostile.parts import Reader
from tests.hostile.readers import KEY, READERS

GOOD_ERRORS = (RuntimeError, EOFError, pickle.UnpicklingError, FileNotFoundError)
BAD_ERRORS = (RecursionError, NotImplementedError)  # kinds of RuntimeError that explain nothing
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect",
             "os.remove", "shutil.rmtree", "ctypes.dlopen")  # fmt: skip
# Of readers that raise ValueError or KeyError where a sound file is not the one that was wanted.
KNOWN = re.compile(
    r"special tokens|describes|has no model|has no column|their surroundings|the checkpoint has no|"
    r"^checkpoint\.load: .* is \([\d, ]*\) there and \([\d, ]*\) here"
)
ROOM = 4 << 30
STUCK = 60  # seconds, on a machine that is busy


class Watch:
    """Notes what a file has the process do that no reading needs."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.active = False
        sys.addaudithook(self.note)

    def note(self, event: str, args: Any) -> None:
        own = event == "os.remove" and Path(str(args[0])).name == KEY  # the cache's, of its own
        if self.active and event in FORBIDDEN and not own:
            self.seen.append(event)


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def outcome(reader: Reader, path: Path) -> str:
    """ "loaded", "refused: ..." or "WRONG: ..."."""
    try:
        reader.read(path)
    except (ValueError, KeyError) as error:
        known = KNOWN.search(str(error)) is not None
        return f"{'refused' if known else 'WRONG'}: {type(error).__name__}: {str(error)[:300]}"
    except GOOD_ERRORS as error:
        if isinstance(error, BAD_ERRORS):
            return f"WRONG: {type(error).__name__}: {str(error)[:300]}"
        named = not reader.named or path.name in str(error) or isinstance(error, FileNotFoundError)
        return f"{'refused' if named else 'WRONG (no name)'}: {str(error)[:300]}"
    except BaseException as error:
        return f"WRONG: {type(error).__name__}: {str(error)[:300]}"
    return "loaded"


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def examine(watch: Watch, reader: Reader, folder: Path, name: str, data: bytes) -> None:
    path = folder / reader.name
    path.write_bytes(data)
    tell(case=name)
    signal.alarm(STUCK)  # ends the process, wherever it is
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the highest so far is the present
    before, start = memory("VmRSS"), time.process_time()
    watch.seen.clear()
    watch.active = True
    found = outcome(reader, path)
    watch.active = False
    signal.alarm(0)
    seconds, grown = time.process_time() - start, memory("VmHWM") - before
    tell(found=found, seconds=seconds, grown=grown, size=len(data), ran=watch.seen)


def compile_something() -> None:
    """Load the compiler, which large and frequent operations ask for, whatever is read."""
    ad.ones(200, 100).exp()


def main() -> None:
    folder, kind, *rest = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    warnings.simplefilter("ignore")
    place, watch = Path(folder), Watch()
    compile_something()
    first, count, names = (int(rest[0]), int(rest[1]), rest[2:])
    for title in READERS if kind == "all" else [kind]:
        reader = READERS[title]
        (place / reader.name).write_bytes(reader.sample())
        reader.read(place / reader.name)  # imports what reading needs; a sample must load
        for i in range(first, first + count):
            case = f"{title}:{i}"
            examine(watch, reader, place, case, mutated(reader, case))
        (place / reader.name).unlink()
    gc.freeze()  # what is loaded stays: only what a file leaves is looked for
    for name in names:
        crafted_case = crafted.CASES[name]
        gc.collect()
        examine(watch, READERS[crafted_case.reader], place, name, crafted_case.make())
        (place / READERS[crafted_case.reader].name).unlink()


if __name__ == "__main__":
    main()
