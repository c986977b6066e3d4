"""A recorder that executes Python's own bytecode on real values (README.md)."""

from .engine import Engine as Engine
from .engine import NoEngine as NoEngine
from .errors import Refusal as Refusal
from .guards import Guard as Guard
from .guards import Guards as Guards
from .locations import Location as Location
from .observation import Observation as Observation
from .observation import Replay as Replay
from .observation import observe as observe
from .recorder import Recorder as Recorder
