"""What is ambient, per thread or per process: context, settings, random generators, forks."""

from time import time as _time

LOADED_AT = _time()  # this is read among the first of the engine's files (see `code_digest`)
