"""Arguments of recipes and of the command: checked as they are read, refused in one line."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.engine.core.errors import did_you_mean
from adjoint.engine.core.state.rng import check_seed

# How argparse refuses a choice; newer versions leave the quotes out.
CHOICE = re.compile(r"((?:argument [^:]*: )?invalid choice: '(.*?)') \(choose from (.*)\)$")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; unknown options are refused by the command they were given to."""
        chosen, unknown = self.parse_known_args(args, namespace)
        if unknown:
            given = list(sys.argv[1:] if args is None else args)
            parser = self.of_command(given)
            options = [name for action in parser._actions for name in action.option_strings]
            close = did_you_mean(unknown[0].split("=")[0], options) if unknown[0][0] == "-" else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{close}")
        return chosen

    def of_command(self, given: list[str]) -> argparse.ArgumentParser:
        """The parser of the command that some arguments begin with; this one, if it has none."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                command = next((word for word in given if word in action.choices), None)
                return self if command is None else action.choices[command]
        return self

    def error(self, message: str) -> NoReturn:
        wrong = CHOICE.match(message)
        if wrong is not None:
            names = [name.strip(" '") for name in wrong[3].split(",")]
            message = (
                f"{wrong[1]}{did_you_mean(wrong[2], names) or '.'} There is: {', '.join(names)}"
            )
        print(f"{self.prog}: {message} (see `{self.prog} --help`)", file=sys.stderr)
        raise SystemExit(2)


def at_least(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from `least` on.

    >>> at_least(8)("12")
    12
    """

    def number(text: str) -> int:
        try:
            read = int(text)
        except ValueError:
            read = least - 1
        if read < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} on, received {text!r}"
            )
        return read

    return number


positive = at_least(1)


def rate(text: str) -> float:
    """A finite number above 0.

    >>> rate("1e-3")
    0.001
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, received {text!r}")
    return number


def seed(text: str) -> int:
    """A seed that `manual_seed` takes."""
    try:
        return check_seed(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at most 64 bits, received {text!r}"
        ) from None
