"""How factors of products of scaled halves lie, as programs name it."""

from enum import Enum


class ScalingType(Enum):
    """For what part of a matrix there is one factor."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """In what order factors lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
