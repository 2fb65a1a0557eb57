"""The class with the largest c * mu first, with replicas kept for it."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check, check_whole
from simulator.observation import Observation
from simulator.policies.choose import BatchActions, sizes_by_class
from simulator.policies.dispatch.class_replicas import (
    c_mu_rank,
    class_sizes,
    needs_several,
    send_by_class,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario


class CMuReserved(Rule):
    """Like `c_mu`, but the last `reserved_replicas` take the urgent class only.

    Urgent is the class with the largest c * mu, as in `c_mu` (all of them where several have it). A
    batch is never interrupted, so under `c_mu` an urgent request may find every replica with a long
    batch of another class; a reserved replica is never far from idle. Reserved are the last of the
    replicas that serve an urgent class; a class that has no other replica may use them as well. Of
    replicas that would finish at the same time the highest number goes first, which leaves those
    that are not reserved to the others.

    A trunk reservation, as in loss networks and call centers (Miller 1969, Operations Research 17,
    from memory), on top of c * mu; with batches a heuristic.
    """

    name = "c_mu_reserved"

    def __init__(
        self, scenario: Scenario, batch_size: int | Mapping[str, int], reserved_replicas: int
    ) -> None:
        self._batches = BatchActions(scenario, sizes_by_class("batch_size", batch_size, scenario))
        parameters, replicas = scenario.parameters(), len(scenario.replicas)
        check_whole("reserved_replicas", reserved_replicas, 1)
        rule = f"must be below the {replicas} replicas"
        check(reserved_replicas < replicas, "reserved_replicas", reserved_replicas, rule)
        self._rank = c_mu_rank(scenario)
        urgent = self._rank == self._rank.max()
        serves = parameters.serves  # [K, C]
        reserved = np.zeros(replicas, bool)
        reserved[np.flatnonzero(serves[:, urgent].any(axis=1))[-reserved_replicas:]] = True
        others = serves & ~reserved[:, None]
        self._allowed = np.where(urgent | ~others.any(axis=0), serves, others)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs actions that name the class, and two replicas and classes at least."""
        return needs_several(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """A batch size for each class, and every number of reserved replicas."""
        sizes = class_sizes(scenario)
        reserved = Choice(tuple(range(1, len(scenario.replicas))))
        return Space(
            {**sizes.axes, "reserved_replicas": reserved},
            {**(sizes.default or {}), "reserved_replicas": 1},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        return send_by_class(self._batches, observation, action_mask, self._allowed, self._rank)
