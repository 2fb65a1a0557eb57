"""Power of two choices on polled loads: what several requests between two polls all believe."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.route.choose_replica import least_of_some, shares_of_subsets, waiting_at
from simulator.policies.rule import Rule
from simulator.scenario import Scenario


class VllmRouter(Rule):
    """The less loaded of two random replicas, by the load at the last poll (vllm router#177).

    Load is what waits and what runs, as polled (every 5 s there, `view.refresh_s` here). It does
    not count the requests that it sent itself since, even where the view would tell: until the next
    poll all go to the same replicas, a herd. With a live view it is `power_of_d`, and
    `power_of_d` in a view with `own_in_flight` is the cure that issue asks for.
    """

    name = "vllm_router"

    def __init__(self, scenario: Scenario) -> None:
        self._share = shares_of_subsets(len(scenario.replicas), 2)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with the probability that a replica is drawn and has the lower load."""
        load = observation.in_service + waiting_at(observation)
        return least_of_some(load, action_mask, self._share)
