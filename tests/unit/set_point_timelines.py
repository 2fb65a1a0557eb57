"""A cluster told by hand, one control interval after the other, to a rule that tunes it."""

from typing import Any

import numpy as np

from simulator.action import action_table
from simulator.conditions import Scaling, SetPoints
from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import Policy, build_policy
from simulator.replica import Replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario

GPU = Replica((0.05,), (0.002,), (0.0,), 64)  # L(b) = 50 + 2 b ms


def tuned(
    menu: SetPoints,
    interval_s: float = 1.0,
    replicas: int = 4,
    gpu: Replica = GPU,
    initial: int | None = None,
    cold_start_s: float = 0.0,
) -> Scenario:
    """A central queue, or replica queues under continuous batching; one request class."""
    return Scenario(
        (RequestClass("only", slo_s=1.0),),
        (gpu,) * replicas,
        (1, 2, 4, 8, 16, 32, 64),
        decision=DecisionKind.TUNE,
        queues=QueuePlace.CENTRAL if gpu.tokens is None else QueuePlace.REPLICA,
        control_interval_s=interval_s,
        set_points=menu,
        scaling=Scaling(cold_start_s, initial_replicas=initial),
    )


class Told:
    """One lane. What the rule sets is what it finds next time, unless it is told otherwise."""

    def __init__(self, scenario: Scenario, name: str, on: int, **parameters: Any) -> None:
        self.scenario, self.table = scenario, action_table(scenario)
        self.policy: Policy = build_policy(name, scenario, parameters)
        self.policy.reset(1)
        self.clock_s, self.arrived = 0.0, 0.0
        self.set_points = np.array([64.0, 0.0, 64.0, on])

    def ask(
        self,
        arrivals: float = 0,
        waiting: float = 0,
        in_flight: float = 0,
        p95_s: float = 0.0,
        ready: int | None = None,
        found: dict[int, float] | None = None,
    ) -> np.ndarray:
        """The set-points `[4]` after a decision; `found` replaces those that the rule finds."""
        for number, value in (found or {}).items():
            self.set_points[number] = value
        self.clock_s += self.scenario.control_interval_s
        self.arrived += arrivals
        replicas = len(self.scenario.replicas)
        ready = int(self.set_points[3]) if ready is None else ready
        observation = observed(
            self.scenario,
            queue_length=[[waiting]],
            in_flight=[[in_flight] + [0.0] * (replicas - 1)],
            response_p95_s=[p95_s],
            replica_state=[
                [ReplicaState.IDLE if k < ready else ReplicaState.OFF for k in range(replicas)]
            ],
            set_points=[self.set_points],
            clock_s=[self.clock_s],
            arrived=[[self.arrived]],
        )
        row = self.policy.action_probabilities(observation, np.ones((1, self.table.size), bool))[0]
        assert sorted(row)[-2:] == [0.0, 1.0] if len(row) > 1 else row == [1.0]
        action = int(row.argmax())
        for number, field in enumerate(
            ("batch_size", "batch_timeout_s", "max_num_seqs", "replicas_on")
        ):
            if getattr(self.table, field)[action] >= 0:
                self.set_points[number] = getattr(self.table, field)[action]
        return self.set_points

    def replicas(self, **told: Any) -> int:
        """The number of replicas after a decision."""
        return int(self.ask(**told)[3])

    def size(self, **told: Any) -> int:
        """The largest batch size after a decision."""
        return int(self.ask(**told)[0])


def observed(scenario: Scenario, lanes: int = 1, **fields: Any) -> Observation:
    """An observation that is empty but for the given fields."""
    return empty_observation(scenario, lanes)._replace(
        **{name: np.array(value, float) for name, value in fields.items()}
    )
