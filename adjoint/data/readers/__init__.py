"""Datasets read from their own file formats: no downloads, no code from files."""

from adjoint.data.readers.cifar import CIFAR10 as CIFAR10
from adjoint.data.readers.cifar import CIFAR100 as CIFAR100
from adjoint.data.readers.idx import MNIST as MNIST
from adjoint.data.readers.idx import FashionMNIST as FashionMNIST
from adjoint.data.readers.idx import read_idx as read_idx
from adjoint.data.readers.images import ImageFolder as ImageFolder
from adjoint.data.readers.images import read_image as read_image
from adjoint.data.readers.tables import CSVDataset as CSVDataset
from adjoint.data.readers.tables import read_csv as read_csv
from adjoint.data.readers.text import CharacterDataset as CharacterDataset
from adjoint.data.readers.text import LineDataset as LineDataset
from adjoint.data.readers.text import LineStream as LineStream
