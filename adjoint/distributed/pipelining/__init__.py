"""Models divided into stages, one per process, that work on parts of a batch in turn."""

from adjoint.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from adjoint.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from adjoint.distributed.pipelining.stage import PipelineStage as PipelineStage
