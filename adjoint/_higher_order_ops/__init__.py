"""Control flow under PyTorch's path; `cond`, `scan` and `while_loop` of the package itself."""

from adjoint._higher_order_ops.associative_scan import associative_scan as associative_scan
from adjoint._higher_order_ops.cond import cond as cond
from adjoint._higher_order_ops.foreach_map import foreach_map as foreach_map
from adjoint._higher_order_ops.map import map as map
from adjoint._higher_order_ops.scan import scan as scan
from adjoint._higher_order_ops.while_loop import while_loop as while_loop
