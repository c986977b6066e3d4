"""What is ambient, per thread or per process: context, settings, random generators, forks."""

from os import stat as _stat
from os import stat_result as _stat_result
from time import time as _time

LOADED_AT = _time()  # this is read among the first of the engine's files (see `code_digest`)
LOADED_FROM: _stat_result | None
try:
    LOADED_FROM = _stat(__file__.rpartition("core")[0])
except OSError:  # in an archive
    LOADED_FROM = None
