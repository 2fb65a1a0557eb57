"""A replica as a process: both models in ONNX Runtime on one thread, one batch at a time.

Messages are fixed-size integers and not pickles: `(batch_id, request_class, batch_size)` in,
`batch_id` out when the batch is done. A worker ends when its pipe closes.
"""

import gc
import multiprocessing
import os
import signal
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime

BATCH = struct.Struct("<qqq")
ANSWER = struct.Struct("<q")
READY = -1  # the answer that says: loaded and warm
START_LIMIT_S = 120.0
STOP_LIMIT_S = 5.0
NICENESS = 10  # below the gateway, which needs a core for 0.2 ms at a time, and at once


class Worker(NamedTuple):
    """The gateway's end of a replica."""

    process: BaseProcess
    connection: Connection

    def send(self, batch_id: int, request_class: int, batch_size: int) -> None:
        """The batch is on its way; returns at once."""
        self.connection.send_bytes(BATCH.pack(batch_id, request_class, batch_size))

    def answer(self) -> int:
        """The next answered batch_id, waiting for it. `RuntimeError` if the worker has ended."""
        try:
            return ANSWER.unpack(self.connection.recv_bytes())[0]
        except (EOFError, ConnectionError) as end:
            raise RuntimeError(f"worker process {self.process.name} ended unexpectedly") from end


def _session(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # A spinning thread would take the core that the gateway and the other worker share.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def serve_batches(
    connection: Connection, models: Sequence[tuple[Path, Path]], max_batch_size: int
) -> None:
    """Loads `(model, ready-made requests)` of each class, warms up, answers until the pipe closes.

    Every batch size from 1 is run once first: ONNX Runtime plans its memory at a shape's first run.
    """
    # Ctrl-C reaches the whole process group; the gateway decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    sessions = [_session(model) for model, _ in models]
    requests = [np.load(ready, allow_pickle=False) for _, ready in models]
    for session, ready in zip(sessions, requests, strict=True):
        for batch_size in range(1, max_batch_size + 1):
            session.run(None, {"request": ready[:batch_size]})
    gc.collect()
    gc.freeze()
    connection.send_bytes(ANSWER.pack(READY))
    while True:
        try:
            batch_id, request_class, batch_size = BATCH.unpack(connection.recv_bytes())
            sessions[request_class].run(None, {"request": requests[request_class][:batch_size]})
            connection.send_bytes(ANSWER.pack(batch_id))
        except (EOFError, ConnectionError):
            return


def _start(replica: int, models: Sequence[tuple[Path, Path]], max_batch_size: int) -> Worker:
    context = multiprocessing.get_context("spawn")
    gateway_end, worker_end = context.Pipe()
    process = context.Process(
        target=serve_batches,
        args=(worker_end, models, max_batch_size),
        name=f"replica-{replica}",
        daemon=True,
    )
    process.start()
    worker_end.close()  # else the end of the worker would not close the pipe
    return Worker(process, gateway_end)


def _stop(worker: Worker) -> None:
    worker.connection.close()
    worker.process.join(STOP_LIMIT_S)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


@contextmanager
def running_workers(
    replicas: int, models: Sequence[tuple[Path, Path]], max_batch_size: int
) -> Iterator[tuple[Worker, ...]]:
    """`replicas` warm workers; they end with the block, however it ends.

    `models` are pairs of paths (ONNX model, ready-made requests), one for each request class.
    """
    workers: list[Worker] = []
    try:
        for replica in range(replicas):
            workers.append(_start(replica, models, max_batch_size))
        for worker in workers:
            if not worker.connection.poll(START_LIMIT_S):
                raise RuntimeError(f"{worker.process.name} not ready after {START_LIMIT_S} s")
            if worker.answer() != READY:
                raise RuntimeError(f"{worker.process.name} answered before it was ready")
        yield tuple(workers)
    finally:
        for worker in workers:
            _stop(worker)
