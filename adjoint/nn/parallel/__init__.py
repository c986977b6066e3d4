"""Modules over several devices or processes: at present over one."""

from adjoint.nn.parallel.data_parallel import DataParallel as DataParallel
from adjoint.nn.parallel.data_parallel import data_parallel as data_parallel
from adjoint.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
