"""Modules over several devices or processes: at present over one."""

from adjoint.nn.parallel.data_parallel import DataParallel as DataParallel
from adjoint.nn.parallel.data_parallel import data_parallel as data_parallel
from adjoint.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from adjoint.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from adjoint.nn.parallel.replicate import replicate as replicate
from adjoint.nn.parallel.scatter_gather import gather as gather
from adjoint.nn.parallel.scatter_gather import scatter as scatter
