"""How far predicted token times are from logged ones."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.tokens.log import LoggedTokens, TokenTimes, token_times

PERCENTILES = (50, 95)


class TokenError(NamedTuple):
    """A percentile of one token time, logged and simulated, and the relative error."""

    time: str  # a field of TokenTimes
    percentile: int
    requests: int
    logged_s: float
    simulated_s: float
    error: float  # simulated / logged - 1


def token_errors(
    logged: LoggedTokens, simulated: LoggedTokens, rows: slice | np.ndarray
) -> list[TokenError]:
    """Errors of P50 and P95 of TTFT, TPOT and response time over the requests `rows`.

    Requests of which either log lacks the time are in neither percentile. Raises ValueError where
    none is left.
    """
    found = []
    pairs = zip(TokenTimes._fields, token_times(logged), token_times(simulated), strict=True)
    for name, logged_s, simulated_s in pairs:
        both = np.isfinite(logged_s[rows]) & np.isfinite(simulated_s[rows])
        if not both.any():
            raise ValueError(f"{name}: no request has it in both logs")
        for percentile in PERCENTILES:
            true_s = float(np.percentile(logged_s[rows][both], percentile))
            told_s = float(np.percentile(simulated_s[rows][both], percentile))
            row = TokenError(name, percentile, int(both.sum()), true_s, told_s, told_s / true_s - 1)
            found.append(row)
    return found
