"""A real serving system to learn from: two ONNX models, two workers and a gateway with a queue."""
