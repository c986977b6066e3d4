"""Assembly of LLVM IR for any processor; as a program, with every pass of LLVM's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm

ROOT = Path(__file__).parent.parent


def assembly_of(text: str, triple: str, cpu: str) -> str:
    """A module's code for a processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=1, reloc="pic")
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.verify()
        return str(machine.emit_assembly(module))


def with_every_pass(texts: list[str], triple: str, cpu: str) -> list[str]:
    """That of several, also where quick tests' code is made without some of them."""
    command = [sys.executable, "-m", "tests.assembly_text", triple, cpu]
    given = json.dumps(texts)
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    codes: list[str] = json.loads(done.stdout)
    return codes


if __name__ == "__main__":
    print(json.dumps([assembly_of(text, *sys.argv[1:]) for text in json.load(sys.stdin)]))
