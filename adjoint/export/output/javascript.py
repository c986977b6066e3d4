"""The JavaScript that loads a module, and its types."""

from __future__ import annotations

import json

from adjoint.export.interface import Interface
from adjoint.export.state import ALIGNED, ProgramState

ARRAYS = {
    "bool": "Uint8Array", "uint8": "Uint8Array", "int8": "Int8Array", "int16": "Int16Array",
    "uint16": "Uint16Array", "int32": "Int32Array", "uint32": "Uint32Array",
    "int64": "BigInt64Array", "uint64": "BigUint64Array", "float16": "Uint16Array",
    "bfloat16": "Uint16Array", "float32": "Float32Array", "float64": "Float64Array",
}  # fmt: skip


def description(interface: Interface, state: ProgramState) -> dict[str, object]:
    """What the loader knows of a program."""
    return {
        "name": interface.name,
        "sizes": [{"name": s.name, "min": s.low, "max": s.high} for s in interface.sizes],
        "buffers": [
            {
                "name": b.name,
                "role": b.role,
                "array": ARRAYS[b.dtype.name],
                "bytes": b.dtype.itemsize,
                "shape": [interface.dimension(b, d) for d in range(len(b.shapes[0]))],
                "most": max(b.counts),
            }
            for b in interface.buffers
        ],
        "numbers": [name for name, _ in interface.numbers],
        "arena": max(interface.arena_bytes),
        "stateBytes": interface.state_bytes if interface.takes_state else 0,
        "stateWritten": interface.state_written,
        "embedded": interface.embedded,
        "header": len(state.header()),
        "state": {
            h.name: {
                "array": ARRAYS[h.dtype.name],
                "at": h.offset,
                "count": h.nbytes // h.dtype.itemsize,
                "shape": list(h.shape),
            }
            for h in (state.tensors if interface.takes_state else [])
        },
    }


def loader_text(interface: Interface, state: ProgramState) -> str:
    """An ES module for browsers, Node and Deno."""
    about = json.dumps(description(interface, state))
    text = _LOADER.replace("NAME", interface.name).replace("= ABOUT;", f"= {about};")
    return text.replace("ALIGNED", str(ALIGNED))


def types_text(interface: Interface) -> str:
    """The loader's types."""
    inputs = "".join(
        f"  {b.name}: {ARRAYS[b.dtype.name]};\n" for b in interface.buffers if b.role != "output"
    )
    inputs += "".join(f"  {name}: number;\n" for name, _ in interface.numbers)
    inputs += "".join(f"  {size.name}: number;\n" for size in interface.sizes)
    outputs = "".join(
        f"  {b.name}: {ARRAYS[b.dtype.name]};\n" for b in interface.buffers if b.role != "input"
    )
    return _TYPES.replace("INPUTS", inputs).replace("OUTPUTS", outputs)


_LOADER = """\
// Loads the program NAME and runs it. Made by Adjoint.
//
//   import { load } from "./NAME.mjs";
//   const program = await load(await fetch("NAME.wasm").then((r) => r.arrayBuffer()));
//   const { output } = program.run({ input: new Float32Array(...) });

const ABOUT_PROGRAM = ABOUT;

const arrays = {
  Uint8Array, Int8Array, Int16Array, Uint16Array, Int32Array, Uint32Array,
  BigInt64Array, BigUint64Array, Float32Array, Float64Array,
};
const up = (n) => Math.ceil(n / ALIGNED) * ALIGNED;

/** Load the module from its bytes (or a compiled WebAssembly.Module); where the weights are a file
 * beside it, `state` is that file's bytes. */
export async function load(source, state) {
  const made = await WebAssembly.instantiate(source, {});
  return new Program(made instanceof WebAssembly.Instance ? made : made.instance, state);
}

export class Program {
  constructor(instance, state) {
    this.about = ABOUT_PROGRAM;
    this.functions = instance.exports;
    this.memory = instance.exports.memory;
    const { about } = this;
    let at = up(Number(instance.exports.__heap_base.value));
    const take = (bytes) => {
      const start = at;
      at = up(at + bytes);
      return start;
    };
    this.arena = take(about.arena);
    this.stateAt = about.stateBytes ? take(about.stateBytes) : 0;
    this.places = about.buffers.map((buffer) => take(Math.max(buffer.most * buffer.bytes, 1)));
    const pages = Math.ceil((at - this.memory.buffer.byteLength) / 65536);
    if (pages > 0) this.memory.grow(pages);
    if (about.stateBytes) this.reset(state);
  }

  call(name, ...given) {
    return this.functions[`${this.about.name}_${name}`](...given);
  }

  /** Have the state that the program was exported with, or that of a safetensors file. */
  reset(state) {
    const { about } = this;
    const block = new Uint8Array(this.memory.buffer, this.stateAt, about.stateBytes);
    if (about.embedded) {
      const start = Number(this.functions[`${about.name}_initial_state`].value);
      block.set(new Uint8Array(this.memory.buffer, start, about.stateBytes));
      return;
    }
    const bytes = state === undefined ? undefined : new Uint8Array(state);
    if (bytes === undefined || bytes.length !== about.header + about.stateBytes) {
      throw new Error(`${about.name}: expected the ${about.header + about.stateBytes} bytes of ` +
        `${about.name}.safetensors, received ${bytes === undefined ? "none" : bytes.length}`);
    }
    block.set(bytes.subarray(about.header));
  }

  /** A tensor of the state, as an array on its memory: reading and writing it is the state's. */
  tensor(name) {
    const held = this.about.state[name];
    if (held === undefined) throw new Error(`${this.about.name}: there is no state ${name}`);
    return new arrays[held.array](this.memory.buffer, this.stateAt + held.at, held.count);
  }

  /** Run the program: arrays, numbers and sizes by name in, arrays by name out. */
  run(given) {
    const { about, places } = this;
    const sizes = about.sizes.map(({ name }) => {
      if (!Number.isInteger(given[name])) throw new TypeError(`${about.name}: ${name} is a size`);
      return BigInt(given[name]);
    });
    const counts = about.buffers.map((buffer) => (
      about.sizes.length ? this.call(`${buffer.name}_count`, ...sizes) : buffer.most
    ));
    const parameters = [...sizes];
    about.buffers.forEach((buffer, k) => {
      if (buffer.role !== "output") {
        const array = given[buffer.name];
        if (!(array instanceof arrays[buffer.array])) {
          throw new TypeError(`${about.name}: ${buffer.name} is a ${buffer.array}`);
        }
        if (array.length <= buffer.most) {
          new arrays[buffer.array](this.memory.buffer, places[k], array.length).set(array);
        }
        counts[k] = array.length;
      }
      parameters.push(places[k], counts[k]);
    });
    for (const name of about.numbers) parameters.push(Number(given[name]));
    if (about.stateBytes) parameters.push(this.stateAt, about.stateBytes);
    parameters.push(this.arena, about.arena);
    const code = this.call("run", ...parameters);
    if (code !== 0) throw new Error(`${about.name}: ${this.message(code)}`);
    const results = {};
    about.buffers.forEach((buffer, k) => {
      if (buffer.role !== "input") {
        results[buffer.name] =
          new arrays[buffer.array](this.memory.buffer, places[k], counts[k]).slice();
      }
    });
    return results;
  }

  /** What a code means. */
  message(code) {
    const bytes = new Uint8Array(this.memory.buffer);
    const start = this.call("error", code);
    return new TextDecoder().decode(bytes.slice(start, bytes.indexOf(0, start)));
  }
}
"""

_TYPES = """\
export interface Inputs {
INPUTS}
export interface Outputs {
OUTPUTS}
export type Elements =
  | Uint8Array | Int8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float32Array | Float64Array;

export class Program {
  /** Run the program; throws where what is given does not fit. */
  run(given: Inputs): Outputs;
  /** A tensor of the state, as an array on its memory. */
  tensor(name: string): Elements;
  /** Have the state that the program was exported with, or that of a safetensors file. */
  reset(state?: ArrayBuffer | Uint8Array): void;
  /** What a code means. */
  message(code: number): string;
  readonly memory: WebAssembly.Memory;
}
export function load(
  source: BufferSource | WebAssembly.Module,
  state?: ArrayBuffer | Uint8Array,
): Promise<Program>;
"""
