"""Vision transformers, at torchvision's path."""

from __future__ import annotations

from adjoint.models import vit as plain
from adjoint.models.vit import ConvStemConfig as ConvStemConfig
from adjoint.models.vit import Encoder as Encoder
from adjoint.models.vit import EncoderBlock as EncoderBlock
from adjoint.models.vit import MLPBlock as MLPBlock
from adjoint.models.vit import VisionTransformer as VisionTransformer
from adjoint.vision.models.registry import network, weights_in

vit_b_16 = network(plain.vit_b_16)
vit_b_32 = network(plain.vit_b_32)
vit_l_16 = network(plain.vit_l_16)
vit_l_32 = network(plain.vit_l_32)
vit_h_14 = network(plain.vit_h_14)

__getattr__ = weights_in(__name__)
