"""Keys and values that processes share while they find one another."""

from adjoint.distributed.store.base import PrefixStore as PrefixStore
from adjoint.distributed.store.base import Store as Store
from adjoint.distributed.store.files import FileStore as FileStore
from adjoint.distributed.store.memory import HashStore as HashStore
from adjoint.distributed.store.tcp import TCPStore as TCPStore
