"""The compiler: `compile` records a function and runs it as native code from then on."""

from adjoint.engine.capture.capture import is_compiling as is_compiling
from adjoint.engine.capture.capture import reset as reset
from adjoint.engine.capture.dynamic.marks import mark_static as mark_static
from adjoint.engine.capture.dynamic.marks import maybe_mark_dynamic as maybe_mark_dynamic
from adjoint.engine.capture.recordings.limits import get_recording_limit as get_recording_limit
from adjoint.engine.capture.recordings.limits import set_recording_limit as set_recording_limit
from adjoint.engine.compiler.api import compile as compile
from adjoint.engine.compiler.executors import get_default_backend as get_default_backend
from adjoint.engine.compiler.executors import list_backends as list_backends
from adjoint.engine.compiler.executors import register_backend as register_backend
from adjoint.engine.compiler.executors import register_compiler as register_compiler
from adjoint.engine.compiler.executors import set_default_backend as set_default_backend
from adjoint.engine.compiler.marks import allow_in_graph as allow_in_graph
from adjoint.engine.compiler.marks import assume_constant_result as assume_constant_result
from adjoint.engine.compiler.marks import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from adjoint.engine.compiler.marks import disable as disable
from adjoint.engine.compiler.marks import forbid_in_graph as forbid_in_graph
from adjoint.engine.compiler.marks import is_dynamo_compiling as is_dynamo_compiling
from adjoint.engine.compiler.marks import is_exporting as is_exporting
from adjoint.engine.compiler.marks import nested_compile_region as nested_compile_region
from adjoint.engine.compiler.marks import substitute_in_graph as substitute_in_graph
from adjoint.engine.compiler.stance import set_stance as set_stance
from adjoint.engine.core.state.validation import ValidationError as ValidationError

_disable_dynamo = disable  # PyTorch's name in its own modules
