"""The reward as a weighted sum of terms that are kept one by one."""

from typing import NamedTuple

import numpy as np

from simulator.scenario import Scenario

TERMS_BY_CLASS = ("completed", "response_s", "number_in_system_s", "shed", "slo_misses")
TERMS = ("replica_seconds", "energy_j", "bill")


def reward_term_names(class_names: tuple[str, ...]) -> tuple[str, ...]:
    """Names `[T]` of the reward terms, such as `response_s.fast`; T = 5 C + 3.

    completed: requests answered. response_s: their response times, booked at completion.
    number_in_system_s: integral of the number in system. shed: requests refused. slo_misses:
    requests answered later than their SLO. replica_seconds, energy_j: what the replicas cost.
    """
    return (*(f"{term}.{name}" for term in TERMS_BY_CLASS for name in class_names), *TERMS)


class Reward(NamedTuple):
    """The weight of each reward term."""

    weights: np.ndarray  # [T]

    def value(self, reward_terms: np.ndarray) -> np.ndarray:
        """`sum of weight * term` over the last axis: `[..., T]` to `[...]`.

        Not a matrix product, whose rounding would depend on how many lanes there are.
        """
        return np.asarray((reward_terms * self.weights).sum(axis=-1))


def weighted_reward(
    scenario: Scenario, by_class: dict[str, float], overall: dict[str, float], scale: float = 1.0
) -> Reward:
    """Reward from one weight a term; a term by class is also weighted by `RequestClass.weight`.

    `by_class` has weights for `TERMS_BY_CLASS`, `overall` for `TERMS`; what is absent weighs 0.
    Raises ValueError for a term that does not exist or a weight that is not finite.
    """
    for given, known in ((by_class, TERMS_BY_CLASS), (overall, TERMS)):
        for term, weight in given.items():
            if term not in known:
                raise ValueError(f"reward.{term} = {weight!r}: the terms are {', '.join(known)}")
            if not np.isfinite(weight):
                raise ValueError(f"reward.{term} = {weight!r}: must be finite")
    class_weight = [request_class.weight for request_class in scenario.request_classes]
    weights = [by_class.get(term, 0.0) * w for term in TERMS_BY_CLASS for w in class_weight]
    weights += [overall.get(term, 0.0) for term in TERMS]
    return Reward(np.array(weights) * scale)


def paper_reward(scenario: Scenario, sla_s: float = 3.0) -> Reward:
    """`throughput - sum of w * response` at completion (paper, section 4.1), scaled.

    The paper states no unit and no scale: a completed request counts 1, response times are divided
    by `sla_s` and by the mean class weight (D16-D18). A shed request costs `weight * sla_s` on the
    same scale and the completion it forgoes, so that shedding is never free (D19).
    """
    class_weight = np.array([request_class.weight for request_class in scenario.request_classes])
    if class_weight.mean() == 0:
        raise ValueError("request_class.weight: the paper's reward needs a weight above 0")
    relative = class_weight / class_weight.mean()
    return Reward(
        np.concatenate(
            [
                np.ones(len(relative)),
                -relative / sla_s,
                np.zeros(len(relative)),
                -relative,
                np.zeros(len(relative)),
                np.zeros(len(TERMS)),
            ]
        )
    )
