"""Names that annotations for PyTorch's script compiler use."""

from typing import Any as Any
from typing import Dict as Dict  # noqa: UP035
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union as Union

# "One number, or one for each dimension", as PyTorch's annotations write it.
BroadcastingList1 = list
BroadcastingList2 = list
BroadcastingList3 = list
