"""Small stateful programs, and random ones, without compile and with it: nothing differs in silence.

A program that cannot be recorded whole is refused, and then runs as Python under
`fullgraph=False`. Those programs are listed, so that the list can only shrink.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.core.errors import CaptureError
from adjoint.graph import capture
from tests import tensor_programs
from tests.programs import around as around
from tests.programs import arrays as arrays
from tests.programs import asked as asked
from tests.programs import cached as cached
from tests.programs import classes as classes
from tests.programs import contents as contents
from tests.programs import copies as copies
from tests.programs import effects as effects
from tests.programs import everyday as everyday
from tests.programs import flags as flags
from tests.programs import given as given
from tests.programs import habits as habits
from tests.programs import handed as handed
from tests.programs import heirs as heirs
from tests.programs import histories as histories
from tests.programs import hooked as hooked
from tests.programs import iterators as iterators
from tests.programs import kept as kept
from tests.programs import keys as keys
from tests.programs import late as late
from tests.programs import leaves as leaves
from tests.programs import library as library
from tests.programs import loading as loading
from tests.programs import loops as loops
from tests.programs import memory as memory
from tests.programs import modules as modules
from tests.programs import numbers as numbers
from tests.programs import objects as objects
from tests.programs import outside_state as outside_state
from tests.programs import process as process
from tests.programs import raising as raising
from tests.programs import reads as reads
from tests.programs import settings as settings
from tests.programs import sizes as sizes
from tests.programs import standard as standard
from tests.programs import steps as steps
from tests.programs import structures as structures
from tests.programs import tags as tags
from tests.programs import tapes as tapes
from tests.programs import tensors as tensors
from tests.programs import trained as trained
from tests.programs import training as training
from tests.programs import users as users
from tests.programs.playing import PROGRAMS, told

REFUSED = frozenset({
    "iterators: generator_from_outside", "iterators: generator_that_is_sent_to",
    "asked: user_generator_outside", "asked: user_generator_of_batches",
    "asked: numpy_of_traced", "asked: numpy_of_argument", "asked: numpy_of_state_const",
    "raising: value_tried_for_a_branch", "raising: warnings_recorded_inside", "tensors: reshape_of_transposed_then_written",
    "copies: next_functions_of_argument", "late: item_branch", "late: tensor_isnan_assert",
    "late: numpy_requires_grad_raises", "trained: boolean_mask_select",
    "trained: nonzero_data_dependent", "trained: branch_on_value", "trained: while_on_value",
    "trained: grad_scaler_loop", "hooked: hook_on_intermediate_backward_outside",
    "hooked: hook_reads_state_backward_outside", "hooked: custom_function_backward_state",
    "kept: late_value_as_key", "kept: late_value_in_set_list_sort", "kept: late_int_index",
    "kept: late_in_tuple_compare", "kept: late_json_dump", "kept: late_math_exp",
    "kept: late_np_mean_of_log", "kept: late_bool_item_returned", "kept: equal_branch",
    "numbers: whole_number_of_nan", "numbers: whole_number_of_nan_caught",
    "numbers: letter_of_value", "numbers: list_of_values_as_text", "numbers: tensor_of_values",
    "numbers: large_whole_value_times_tensor", "numbers: generator_left_in_two_iterators",
    "numbers: generator_returned", "tags: operator_taken_over", "tags: function_taken_over",
    "tags: mode_entered_inside",
    "users: holding_itself", "users: identity_of_given", "users: identity_of_given_by_operator",
    "users: equality_of_registered", "users: part_of_an_array_written",
    "users: drawn_array_written_under_a_tensor",
    "settings: gradients_looked_at_in_anomaly_mode", "steps: state_cleared",
    "steps: state_of_one_taken_away", "steps: count_set_back", "steps: state_loaded_inside",
    "keys: counting_in_a_set_display", "keys: counting_in_a_set", "keys: counting_in_fromkeys",
    "keys: counting_in_tuples", "keys: callback_at_the_end_of_what_is_let_go",
    "hooked: hook_that_stays", "loading: callback_added_to_a_future", "loading: file_loaded", "loading: interval_of_a_scaler_set_inside", "loading: loader_advanced", "iterators: grouped", "iterators: callback_at_the_end_of_an_object",
    "handed: memory_before_an_argument", "handed: memory_before_an_argument_written",
    "handed: array_of_numpy_from_an_object", "handed: index_that_counts", "handed: output_too_small",
    "handed: end_of_an_object_that_is_popped", "process: state_of_random_looked_into", "modules: lbfgs_closure", "outside_state: pull_back_that_leaves", "modules: advanced_indexing_state", "modules: bool_tensor_known_branch",
})  # fmt: skip


def play(name: str, wrap: Any) -> Any:
    """What a program gives; "refused" where its function could not be recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = told(PROGRAMS[name](wrap))
        except (CaptureError, TypeError) as error:
            found = type(error).__name__, str(error)
    marks = ("CaptureError", "Refusal", "UnknownShapeError", "compile: argument")
    return "refused" if any(mark in repr(found) for mark in marks) else found


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_without_compile(name: str) -> None:
    want = play(name, lambda fn, **options: fn)
    interpreted = functools.partial(ad.compile, backend="interpret")
    if name not in REFUSED:
        assert play(name, interpreted) == want
        return
    assert play(name, interpreted) == "refused"
    assert play(name, functools.partial(interpreted, fullgraph=False)) == want


def check_program(seed: int) -> int:
    """Play a random program about tensors in two worlds; how many calls were compared."""
    writer = tensor_programs.Writer(seed)
    source = writer.source()
    plain, other = tensor_programs.world(source), tensor_programs.world(source)
    run = capture(other["f"])
    for count in range(4):
        arguments = writer.arguments()
        given, again = eval(arguments, plain), eval(arguments, other)
        want = tensor_programs.outcome(plain["f"], plain["S"], *given)
        got = tensor_programs.outcome(run, other["S"], *again)
        used_up = isinstance(got, RuntimeError) and "CompiledBackward" in str(got)
        if isinstance(got, CaptureError) or used_up:  # a program's node is used up as a whole
            return count
        eager, compiled = (
            tensor_programs.state(plain, given, want),
            tensor_programs.state(other, again, got),
        )
        assert compiled[0] == eager[0], source
        assert "refused" in (eager[1], compiled[1]) or compiled[1] == eager[1], source
        change = writer.change()
        for scope in (plain, other):
            tensor_programs.outcome(exec, change, scope)
    return 4


def test_random_programs_about_tensors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = sum(check_program(seed) for seed in range(60))
    assert compared > 3 * 60  # few are refused


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs_about_tensors(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(1000 + 500 * part, 1500 + 500 * part):
            check_program(seed)
