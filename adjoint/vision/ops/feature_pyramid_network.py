"""Feature pyramids, at torchvision's path."""

from adjoint.vision.ops.layers import ExtraFPNBlock as ExtraFPNBlock
from adjoint.vision.ops.layers import FeaturePyramidNetwork as FeaturePyramidNetwork
from adjoint.vision.ops.layers import LastLevelMaxPool as LastLevelMaxPool
from adjoint.vision.ops.layers import LastLevelP6P7 as LastLevelP6P7
