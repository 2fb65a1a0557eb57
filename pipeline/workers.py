"""Work in several processes, with results that do not depend on how many there are."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any, Protocol

from simulator.checks import check_whole


class Run(Protocol):
    """Calls a function with each tuple of arguments; yields (number of the call, its result).

    Results come as they are ready, hence with their number.
    """

    def __call__(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]: ...


@contextmanager
def workers(processes: int) -> Iterator[Run]:
    """Processes that run calls; with one process the calls run in this one.

    Functions and arguments must be such that they can be sent. Where the block is left by an error
    or an interrupt the processes are ended at once, else when they have nothing left to do.
    """
    check_whole("processes", processes, 1)
    if processes == 1:
        yield _run_here
        return
    others = set(active_children())
    # Spawned, not forked: a forked process would share the threads' locks of NumPy and Numba.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield partial(_run_elsewhere, pool)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
        raise
    pool.shutdown()


def _run_here(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    for number, arguments in enumerate(calls):
        yield number, function(*arguments)


def _run_elsewhere(
    pool: ProcessPoolExecutor, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    with _inherited_by_workers():
        numbers = {
            pool.submit(function, *arguments): number for number, arguments in enumerate(calls)
        }
    try:
        for future in as_completed(numbers):
            yield numbers[future], future.result()
    except BrokenProcessPool:
        raise RuntimeError(
            "a worker process has died, perhaps for want of memory; try processes=1"
        ) from None


@contextmanager
def _inherited_by_workers() -> Iterator[None]:
    """What processes that start within the block begin with.

    One thread each, or they would take each other's cores; and no interest in Ctrl-C, which a
    terminal sends to all of them: the parent ends them, without a traceback of theirs.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    in_main = threading.current_thread() is threading.main_thread()  # else no signal may be set
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGINT, handler)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
