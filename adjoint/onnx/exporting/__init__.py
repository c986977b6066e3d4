"""From a recorded graph to an ONNX model."""
