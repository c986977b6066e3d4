"""The `adjoint` command: run, train, predict, explain, export, bench, doctor, plan and more."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pickle import UnpicklingError

from adjoint.engine.core.arguments import Parser, positive, rate

# What a user can cause and mend: a file that is not there, a value that does not fit, a library
# that is not installed. Anything else is a fault of Adjoint's and shows its traceback.
EXPECTED = (OSError, ValueError, RuntimeError, ModuleNotFoundError, EOFError, UnpicklingError)
REFUSED, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit status.

    What the user got wrong is said in one line, with status 2; an interrupt gives 130.
    `ADJOINT_DEBUG=1` shows tracebacks as well.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["launch"]:  # its own options stand before the program's
        from adjoint.distributed.launch import launch, parse

        return launch(parse(given[1:]))
    if given[:1] == ["plan"]:
        from adjoint.cli.plan import plan

        return plan(given[1:])
    exporting = given[:1] == ["export"]  # its own options stand before the file's
    chosen = parser().parse_args(["export"] if exporting else given)
    if exporting:
        chosen.args = given[1:]
    try:
        status = dispatch(chosen)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as interrupt:
        if debugging():
            raise
        notes = getattr(interrupt, "__notes__", [])
        return complain(chosen.command, "; ".join(["interrupted", *notes]), INTERRUPTED)
    except EXPECTED as error:
        if debugging():
            raise
        return complain(chosen.command, message(error), REFUSED)
    return status


def debugging() -> bool:
    """Whether tracebacks were asked for."""
    return os.environ.get("ADJOINT_DEBUG", "") not in ("", "0")


def complain(command: str, text: str, status: int) -> int:
    """Say one line on standard error; the exit status, for the caller to return."""
    sys.stdout.flush()
    print(f"adjoint {command}: {text}", file=sys.stderr)
    return status


def message(error: BaseException) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def version() -> str:
    """The package's version."""
    return str(importlib.import_module("adjoint").__version__)


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    parser_of_all = Parser(
        prog="adjoint",
        description="Deep learning in Python, with PyTorch's API.",
        epilog="`adjoint COMMAND --help` describes a command.",
    )
    parser_of_all.add_argument("--version", action="version", version=f"adjoint {version()}")
    commands = parser_of_all.add_subparsers(dest="command", required=True, metavar="command")

    run = commands.add_parser("run", help="run a PyTorch script with Adjoint in place of torch")
    run.add_argument("-m", dest="as_module", action="store_true", help="a module, not a file")
    run.add_argument("--full-traceback", action="store_true", help="show the engine's frames too")
    run.add_argument("script", help="the file (or, with -m, the module) to run")
    run.add_argument("args", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")

    train = commands.add_parser(
        "train",
        help="train a built-in recipe, or run a Python file",
        epilog="`adjoint train` lists the recipes; `adjoint train RECIPE --help` its options.",
    )
    train.add_argument(
        "recipe",
        nargs="?",
        help="csv, digits, gpt, images, regression, sentences or vae; or a .py file",
    )
    train.add_argument("args", nargs=argparse.REMAINDER, help="the recipe's own arguments")

    predict = commands.add_parser("predict", help="ask a model that `adjoint train` made")
    predict.add_argument("folder", help="where it was trained into, such as runs/csv")
    predict.add_argument("inputs", nargs="*", help="tables, pictures, or beginnings of a text")
    predict.add_argument(
        "--with-rows", action="store_true", help="of tables: print each row before its prediction"
    )
    predict.add_argument("--length", type=positive, help="characters that a text goes on for (200)")
    predict.add_argument(
        "--temperature",
        type=rate,
        help="how freely a text goes on: below 1 safer, above freer (0.8)",
    )

    explain = commands.add_parser(
        "explain", help="run a script, and write a page about what it compiled"
    )
    explain.add_argument("-o", "--output", help="the page to write; by default script.html")
    explain.add_argument("script", help="the file to run")
    explain.add_argument("args", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")

    start = commands.add_parser(
        "launch", help="start a program in several processes (torchrun's options)", add_help=False
    )
    start.add_argument("args", nargs=argparse.REMAINDER, help="adjoint launch --help shows them")

    plans = commands.add_parser(
        "plan", help="estimate which layout of a model fits a cluster, and its cost", add_help=False
    )
    plans.add_argument("args", nargs=argparse.REMAINDER, help="adjoint plan --help shows them")

    commands.add_parser("doctor", help="check that everything works on this machine")
    commands.add_parser(
        "bench", help="measure this machine: matrix products, memory, a training step"
    )
    leave = commands.add_parser(
        "export", help="write a model as C, WebAssembly or ONNX", add_help=False
    )
    leave.add_argument("args", nargs=argparse.REMAINDER, help="adjoint export --help shows them")

    info = commands.add_parser(
        "info", help="show versions, devices, threads and the cache of kernels"
    )
    info.add_argument("--clear-cache", action="store_true", help="empty the cache of kernels")
    return parser_of_all


def dispatch(chosen: argparse.Namespace) -> int:
    """Do what a command line asks for; the exit status."""
    if chosen.command == "run":
        from adjoint.cli.run import run_script

        return run_script(
            chosen.script,
            chosen.args,
            as_module=chosen.as_module,
            full_traceback=chosen.full_traceback,
        )
    if chosen.command == "export":
        from adjoint.cli.export import export

        return export(chosen.args)
    if chosen.command == "train":
        from adjoint.cli.train import train_recipe

        return train_recipe(chosen.recipe, chosen.args)
    if chosen.command == "predict":
        from adjoint.cli.predict import predict

        return predict(
            chosen.folder, chosen.inputs, chosen.length, chosen.temperature, chosen.with_rows
        )
    if chosen.command == "explain":
        from adjoint.cli.explain import explain_script

        return explain_script(chosen.script, chosen.args, chosen.output)
    if chosen.command == "doctor":
        from adjoint.cli.doctor import examine

        return examine()
    if chosen.command == "bench":
        from adjoint.cli.bench import measure

        return measure()
    from adjoint.cli.info import clear_cache, report

    print(clear_cache() if chosen.clear_cache else report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
