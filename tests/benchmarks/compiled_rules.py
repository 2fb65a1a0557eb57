"""Rules compiled together with the engine, for benchmarks that ask no policy."""

import time

import numba
import numpy as np

from simulator.action import ActionTable, action_table
from simulator.engine import advance, take_action
from simulator.episode import start_lanes
from simulator.layout import empty_state
from simulator.parameters import Parameters
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.service.whole_batch import batch_is_dispatched
from simulator.state import ClusterState


@numba.njit(_nrt=False, error_model="numpy")
def run_static_cap(parameters: Parameters, state: ClusterState, limit: int) -> None:
    """All lanes to their ends, a decision of each in turn: the first replica that can take it."""
    running, begun = len(state.ending), False
    while running > 0:
        running = 0
        for lane in range(len(state.ending)):
            if state.ending[lane] != 0:
                continue
            running += 1
            if begun:
                replica = 0
                while state.slot_count[lane, replica] > 0:
                    replica += 1
                batch_is_dispatched(parameters, state, lane, replica, 0, limit)
            advance(parameters, state, lane)
        begun = True


@numba.njit(_nrt=False, error_model="numpy")
def run_round_robin(parameters: Parameters, state: ClusterState, table: ActionTable) -> None:
    """Lane 0 to its end, requests routed to the replicas in turn."""
    replica = -1
    while state.ending[0] == 0:
        if replica >= 0:
            take_action(parameters, state, 0, table, replica)
        replica = 0 if replica + 1 == state.replica_mode.shape[1] else replica + 1
        if state.ending[0] == 0:
            advance(parameters, state, 0)


def batch_scenario(
    replicas: int, alpha_s: float, beta_s: float, limit: int, queue_capacity: int = 1_000
) -> Scenario:
    """One class, equal replicas, a queue that never fills."""
    replica = Replica((alpha_s,), (beta_s,), (0.0,), limit)
    return Scenario(
        (RequestClass("only", 1.0),),
        (replica,) * replicas,
        batch_sizes=(limit,),
        queue_capacity=queue_capacity,
    )


def batch_seconds(
    scenario: Scenario, rate_rps: float, requests: int, lanes: int, exponential: bool = False
) -> tuple[float, ClusterState]:
    """CPU seconds to simulate `requests` Poisson requests in each lane, and the end state."""
    parameters, state = scenario.parameters(), empty_state(scenario, lanes, requests)
    generator = np.random.default_rng(0)
    for lane in range(lanes):
        np.cumsum(generator.exponential(1.0 / rate_rps, requests), out=state.arrival_s[lane])
    state.size[:] = generator.exponential(1.0, (lanes, requests)) if exponential else 1.0
    state.request_count[:], state.horizon_s[:], state.drains[:] = requests, 1e300, True
    start_lanes(parameters, state, np.ones(lanes, np.bool_))
    begin_s = time.process_time()
    run_static_cap(parameters, state, scenario.replicas[0].max_batch_size)
    return time.process_time() - begin_s, state


def continuous_scenario(replicas: int) -> Scenario:
    """Replicas like a mid-size model on one GPU: some 20 ms an iteration at full load."""
    tokens = TokenModel(
        t0_s=0.006,
        t_prefill_s=2.5e-5,
        t_decode_s=1e-4,
        t_kv_s=2e-8,
        max_num_seqs=128,
        kv_capacity_tokens=120_000,
        max_batched_tokens=2_048,
    )
    return Scenario(
        (RequestClass("chat", 5.0),),
        (continuous_replica(1, tokens),) * replicas,
        batch_sizes=(1,),
        queue_capacity=10_000,
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
    )


def continuous_seconds(
    scenario: Scenario, rate_rps: float, requests: int, prompt_tokens: int, output_tokens: int
) -> tuple[float, ClusterState]:
    """CPU seconds to simulate Poisson requests of equal length, routed in turn."""
    parameters, state = scenario.parameters(), empty_state(scenario, 1, requests)
    generator = np.random.default_rng(0)
    np.cumsum(generator.exponential(1.0 / rate_rps, requests), out=state.arrival_s[0])
    state.prompt_tokens[:], state.output_tokens[:] = prompt_tokens, output_tokens
    state.request_count[:], state.horizon_s[:], state.drains[:] = requests, 1e300, True
    start_lanes(parameters, state, np.ones(1, np.bool_))
    table = action_table(scenario)
    begin_s = time.process_time()
    run_round_robin(parameters, state, table)
    return time.process_time() - begin_s, state
