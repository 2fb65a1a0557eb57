"""The inverse of least squares, and which coefficients it says nothing about."""

import numpy as np

_SINGULAR = 1e-10  # of the largest eigenvalue: a direction that the rows do not see
_TOUCHED = 1e-6  # of a unit: a coefficient that has so much of such a direction is unknown


def inverse_where_known(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse `[p, p]` of a symmetric matrix on the directions that it sees, and `known [p]` bool.

    A pseudo-inverse alone gives a coefficient that cannot be told from another the variance 0 along
    the unseen direction, which is as wrong as can be: its interval has no end.
    """
    values, vectors = np.linalg.eigh(gram)
    seen = values > _SINGULAR * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    known = np.square(vectors[:, ~seen]).sum(1) < _TOUCHED
    return (vectors[:, seen] / values[seen]) @ vectors[:, seen].T, known
