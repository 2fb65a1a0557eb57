"""The token model of a log of continuous batching."""

import numpy as np

from pipeline.calibration.log import LoggedRun
from pipeline.calibration.tokens.fit import TokenFit, fit_tokens
from pipeline.calibration.tokens.limits import StatedLimits
from pipeline.calibration.tokens.log import LoggedTokens, hide_times
from simulator.scenario import Routing
from simulator.workload import Arrivals

_ALONE = Routing.SHORTEST_QUEUE  # to one replica all lead


def logged_tokens(run: LoggedRun) -> tuple[LoggedTokens, Arrivals, np.ndarray]:
    """The completed requests with their token times, as arrivals too, and their rows `[n]`.

    Requests that failed or were shed are left out of the replay: what they did to the engine is
    not logged. Raises RuntimeError for a log without tokens.
    """
    if run.requests is None or not run.continuous:
        raise RuntimeError("the log has no token times")
    rows = np.flatnonzero(run.requests.completed & ~np.isnan(run.requests.departure_s))
    arrivals = Arrivals(*(column[rows] for column in run.arrivals))
    log = LoggedTokens(
        arrivals.arrival_s,
        run.requests.dispatch_s[rows],
        run.requests.first_token_s[rows],
        run.requests.departure_s[rows],
        arrivals.prompt_tokens,
        arrivals.output_tokens,
        run.requests.replica[rows],
    )
    return log, arrivals, rows


def tokens_of_log(run: LoggedRun, train_end_s: float) -> TokenFit:
    """The token model fitted to the requests that arrive before `train_end_s`.

    Where requests go to several replicas and nobody says how, the routing is the one under which
    the fit retells them better.
    """
    log, _, _ = logged_tokens(run)
    seen = hide_times(log, int(np.searchsorted(log.arrival_s, train_end_s)))
    limits = StatedLimits(*(run.system.get(name) for name in StatedLimits._fields))
    replicas = max(1, int(run.system["replicas"]))
    stated = run.system.get("routing")
    rules = [Routing(stated)] if stated else list(Routing) if replicas > 1 else [_ALONE]
    fits = [fit_tokens(seen, replicas, limits, rule) for rule in rules]
    return min(fits, key=lambda fit: fit.loss)
