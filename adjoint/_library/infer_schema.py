"""The schema of a function, from its annotations."""

from adjoint.library.functions import infer_schema as infer_schema
