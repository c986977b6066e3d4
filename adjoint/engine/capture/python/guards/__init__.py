"""What a recording depends on, and how all of it is looked at in a microsecond."""

from .guard import Guard as Guard
from .guards import Guards as Guards
from .table import Check as Check
