"""One model over several devices of one process: by hand, filled in order, or by a cost model."""

from adjoint.distributed.placement.dispatch import dispatch_model as dispatch_model
from adjoint.distributed.placement.moving import MovedOperands as MovedOperands
from adjoint.distributed.placement.moving import move_operands as move_operands
from adjoint.distributed.placement.plan import DeviceLimit as DeviceLimit
from adjoint.distributed.placement.plan import PlacementPlan as PlacementPlan
from adjoint.distributed.placement.plan import infer_device_map as infer_device_map
from adjoint.distributed.placement.units import measure_units as measure_units
