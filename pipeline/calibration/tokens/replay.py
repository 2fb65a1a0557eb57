"""The simulated times of a load under a token model, by the engine itself."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.tokens.log import LoggedTokens
from simulator.conditions import DispatchDelay, SetPoints
from simulator.environment import Environment
from simulator.replica import TokenModel, continuous_replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Routing, Scenario
from simulator.state import Recording
from simulator.workload import Arrivals, RecordedWorkload

_NEVER_S = 1e12  # no decision is due, and no drain is cut
_AFTER_S = 1e-6  # arrivals are before the horizon, the last one too


class TokenCluster(NamedTuple):
    """Equal replicas that run continuous batching, and how requests get to them."""

    tokens: TokenModel
    replicas: int = 1
    routing: Routing = Routing.SHORTEST_QUEUE
    dispatch_delay_s: float = 0.0  # from the arrival until an iteration can admit the request

    def scenario(self, queue_capacity: int) -> Scenario:
        """One request class, nothing shed, the routing rule inside the engine."""
        return Scenario(
            (RequestClass("all", 1.0),),
            (continuous_replica(1, self.tokens),) * self.replicas,
            batch_sizes=(1,),
            queue_capacity=queue_capacity,
            decision=DecisionKind.TUNE,
            queues=QueuePlace.REPLICA,
            set_points=SetPoints(max_num_seqs=(self.tokens.max_num_seqs,)),
            control_interval_s=_NEVER_S,
            routing=self.routing,
            dispatch_delay=DispatchDelay(constant_s=self.dispatch_delay_s),
        )


def replay(cluster: TokenCluster, arrivals: Arrivals) -> LoggedTokens:
    """What the log of these arrivals would say. Nothing in it is random.

    Raises ValueError where a request cannot be served: its tokens exceed the memory of a replica.
    """
    count = len(arrivals.arrival_s)
    scenario = cluster.scenario(count)
    environment = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        float(arrivals.arrival_s[-1]) + _AFTER_S,
        Reward(np.zeros(len(reward_term_names(scenario.class_names)))),
        np.random.default_rng(0),  # nothing is drawn from it
        drain_s=_NEVER_S,
        recording=Recording(requests=True),
    )
    environment.reset()
    records = environment.request_records()
    return LoggedTokens(
        arrivals.arrival_s,
        records.dispatch_s,
        records.first_token_s,
        records.departure_s,
        arrivals.prompt_tokens,
        arrivals.output_tokens,
        records.replica.astype(np.int64),
    )
