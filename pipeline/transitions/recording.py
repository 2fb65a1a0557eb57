"""Recording: a policy plays whole episodes in the lanes of an environment, and rows are kept."""

import hashlib
import json
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.transitions.schema import CLOSING_ACTION, TransitionSchema, transition_schema
from simulator.action import WAIT, sample_actions
from simulator.environment import Environment, Step
from simulator.observation import Encoder
from simulator.policies.base import Policy
from simulator.scenario import Scenario
from simulator.state import Ending


class Run(NamedTuple):
    """An independent run of the simulation: its number, and the seed of its random streams."""

    number: int
    seed: int


class _Moment(NamedTuple):
    """Rows of one instant of the loop, one for each lane of `lane`. N lanes."""

    lane: np.ndarray  # [N]
    clock_s: np.ndarray  # [N] s
    holding_s: np.ndarray  # [N] s
    features: np.ndarray  # [N, F]
    action_mask: np.ndarray  # [N, A]
    action: np.ndarray  # [N]
    propensity: np.ndarray  # [N], NaN in closing rows
    reward_terms: np.ndarray  # [N, T]
    terminated: np.ndarray  # [N]
    truncated: np.ndarray  # [N]


def scenario_digest(scenario: Scenario) -> str:
    """16 hexadecimal digits that differ where two scenarios differ."""
    # Not JSON for others to read: a target or a memory without bound is written as Infinity.
    text = json.dumps(asdict(scenario), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def record_transitions(
    environment: Environment,
    policy: Policy,
    encoder: Encoder,
    episodes: int,
    generator: np.random.Generator,
    run: Run,
) -> pl.DataFrame:
    """The rows of `episodes` whole episodes, in order of the episodes, ready to be written.

    All lanes step together until each has ended, then start again: episode e is number
    e // lanes of lane e % lanes. An episode that ends before its first decision has no transition,
    so no row: its number is missing. `generator` draws the actions alone.

    Raises ValueError unless `episodes` is a positive multiple of the lanes.
    """
    lanes = environment.lanes
    if episodes < 1 or episodes % lanes:
        raise ValueError(f"episodes = {episodes}: must be a positive multiple of {lanes} lanes")
    schema = transition_schema(environment.scenario, encoder)
    tables = [
        _table(_play(environment, policy, encoder, generator), schema, first_episode)
        for first_episode in range(0, episodes, lanes)
    ]
    told = {
        "run": run.number,
        "behavior_policy": policy.name,
        "scenario": scenario_digest(environment.scenario),
        "seed": run.seed,
    }
    columns = schema.columns()
    table = pl.concat(tables).with_columns(
        pl.lit(value, dtype=columns[field]).alias(field) for field, value in told.items()
    )
    return table.select(list(columns))


def _play(
    environment: Environment, policy: Policy, encoder: Encoder, generator: np.random.Generator
) -> list[_Moment]:
    """One episode in every lane; a closing row follows the last decision of each."""
    policy.reset(environment.lanes)
    observation, action_mask = environment.reset()
    running = environment.state.ending == Ending.RUNNING
    features, moments = encoder.encode(observation), []
    while running.any():
        probabilities = policy.action_probabilities(observation, action_mask)
        action, propensity = sample_actions(probabilities, generator)
        # Copies: the environment overwrites its arrays in the next step.
        clock_s, legal = environment.state.clock_s.copy(), action_mask.copy()
        step = environment.step(np.where(running, action, WAIT))
        moments.append(
            _Moment(
                lane=np.flatnonzero(running),
                clock_s=clock_s[running],
                holding_s=step.holding_s[running],
                features=features[running],
                action_mask=legal[running],
                action=action[running],
                propensity=propensity[running],
                reward_terms=step.reward_terms[running],
                terminated=step.terminated[running],
                truncated=step.truncated[running],
            )
        )
        observation, action_mask = step.observation, step.action_mask
        features = encoder.encode(observation)
        ended = running & (step.terminated | step.truncated)
        if ended.any():
            moments.append(_closing(step, features, environment.state.clock_s, ended))
        running = running & ~ended
    return moments


def _closing(step: Step, features: np.ndarray, clock_s: np.ndarray, ended: np.ndarray) -> _Moment:
    lanes = int(ended.sum())
    return _Moment(
        lane=np.flatnonzero(ended),
        clock_s=clock_s[ended],
        holding_s=np.zeros(lanes),
        features=features[ended],
        action_mask=step.action_mask[ended],
        action=np.full(lanes, CLOSING_ACTION),
        propensity=np.full(lanes, np.nan),
        reward_terms=np.zeros((lanes, step.reward_terms.shape[1])),
        terminated=np.zeros(lanes, bool),
        truncated=np.zeros(lanes, bool),
    )


def _table(moments: list[_Moment], schema: TransitionSchema, first_episode: int) -> pl.DataFrame:
    """The moments as columns, lane after lane; what is the same in every row is left out."""
    columns = schema.columns()
    if not moments:
        names = [name for name in columns if name not in _SAME_IN_ALL_ROWS]
        return pl.DataFrame(schema={name: columns[name] for name in names})
    all_rows = _Moment(*(np.concatenate(parts) for parts in zip(*moments, strict=True)))
    order = np.argsort(all_rows.lane, kind="stable")  # within a lane: as it happened
    rows = _Moment(*(column[order] for column in all_rows))
    first = np.flatnonzero(np.diff(rows.lane, prepend=-1))
    step = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    arrays = {"episode": first_episode + rows.lane, "step": step, **rows._asdict()}
    arrays |= dict(zip(schema.reward_terms, rows.reward_terms.T, strict=True))
    table = pl.DataFrame(
        [
            pl.Series(name, np.ascontiguousarray(arrays[name])).cast(columns[name])
            for name in columns
            if name not in _SAME_IN_ALL_ROWS
        ]
    )
    return table.with_columns(pl.col("propensity").fill_nan(None))


_SAME_IN_ALL_ROWS = ("run", "behavior_policy", "scenario", "seed")
