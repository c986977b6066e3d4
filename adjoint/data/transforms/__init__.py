"""Transforms of images and tensors, applied one example at a time.

Images are tensors of shape (..., H, W), NumPy arrays (H, W) or (H, W, C), or PIL images, and what
changes an image gives the kind it was given; `ToTensor` and `PILToTensor` make tensors. Random
transforms draw from Adjoint's default generator, which a DataLoader seeds in its workers.
"""

from adjoint.data.transforms.basic import Compose as Compose
from adjoint.data.transforms.basic import ConvertImageDtype as ConvertImageDtype
from adjoint.data.transforms.basic import Lambda as Lambda
from adjoint.data.transforms.basic import Normalize as Normalize
from adjoint.data.transforms.basic import PILToTensor as PILToTensor
from adjoint.data.transforms.basic import RandomApply as RandomApply
from adjoint.data.transforms.basic import RandomChoice as RandomChoice
from adjoint.data.transforms.basic import ToTensor as ToTensor
from adjoint.data.transforms.color import ColorJitter as ColorJitter
from adjoint.data.transforms.color import Grayscale as Grayscale
from adjoint.data.transforms.color import RandomErasing as RandomErasing
from adjoint.data.transforms.color import RandomGrayscale as RandomGrayscale
from adjoint.data.transforms.geometry import CenterCrop as CenterCrop
from adjoint.data.transforms.geometry import Pad as Pad
from adjoint.data.transforms.geometry import RandomCrop as RandomCrop
from adjoint.data.transforms.geometry import RandomHorizontalFlip as RandomHorizontalFlip
from adjoint.data.transforms.geometry import RandomResizedCrop as RandomResizedCrop
from adjoint.data.transforms.geometry import RandomRotation as RandomRotation
from adjoint.data.transforms.geometry import RandomVerticalFlip as RandomVerticalFlip
from adjoint.data.transforms.geometry import Resize as Resize
