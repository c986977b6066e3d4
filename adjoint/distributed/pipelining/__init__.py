"""Models divided into stages, one per process, that work on parts of a batch in turn."""

from adjoint.distributed.pipelining.pipe import Pipe as Pipe
from adjoint.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from adjoint.distributed.pipelining.schedules import ScheduleDualPipeV as ScheduleDualPipeV
from adjoint.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from adjoint.distributed.pipelining.schedules import (
    ScheduleInterleaved1F1B as ScheduleInterleaved1F1B,
)
from adjoint.distributed.pipelining.schedules import (
    ScheduleInterleavedZeroBubble as ScheduleInterleavedZeroBubble,
)
from adjoint.distributed.pipelining.schedules import ScheduleLoopedBFS as ScheduleLoopedBFS
from adjoint.distributed.pipelining.schedules import ScheduleZBVZeroBubble as ScheduleZBVZeroBubble
from adjoint.distributed.pipelining.stage import PipelineStage as PipelineStage
from adjoint.distributed.pipelining.tracing import SplitPoint as SplitPoint
from adjoint.distributed.pipelining.tracing import pipe_split as pipe_split
from adjoint.distributed.pipelining.tracing import pipeline as pipeline
