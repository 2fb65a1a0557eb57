"""The simulator behind the interfaces of Gymnasium 1.0, by name: `Batchwright/Dispatch-v0`.

Importing this file registers `Batchwright/Dispatch-v0`, `Batchwright/Route-v0` and
`Batchwright/Tune-v0`, one for each kind of decision, each with a small cluster to begin with:

    env = gymnasium.make("Batchwright/Route-v0", horizon_s=30.0)
    lanes = gymnasium.make_vec("Batchwright/Route-v0", num_envs=64)

`"simulator.gymnasium_env:Batchwright/Route-v0"` needs no import. The keywords of both are the
fields of `Episodes`. The process is semi-Markov: a learner that discounts by time finds the
seconds that a step took in `info["holding_s"]`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector.utils import batch_space

from simulator.action import action_table
from simulator.checks import check
from simulator.conditions import Scaling, SetPoints
from simulator.environment import Environment
from simulator.observation import Encoder, full_encoder
from simulator.replica import Replica
from simulator.reward import Reward, weighted_reward
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.traffic import MarkovModulatedWorkload, PoissonWorkload
from simulator.workload import Workload

Infos = dict[str, Any]
StepOfLanes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos]


class Episodes(NamedTuple):
    """What the episodes of an environment are made of.

    An agent that knows no action masks may choose an illegal action. `on_illegal: substitute` takes
    the lowest-numbered legal action instead: WAIT under `dispatch`, the first replica that may be
    chosen under `route`; under `tune` every action is legal. `info["illegal_actions"]` counts them
    since the episode began. `on_illegal: raise` refuses them with ValueError.
    """

    scenario: Scenario
    workload: Workload | Sequence[Workload]  # one for all lanes, or one for each
    horizon_s: float  # the instant that truncates an episode
    reward: Reward | None = None  # None: `default_reward`
    encoder: Encoder | None = None  # None: `full_encoder`
    on_illegal: str = "substitute"
    drain_s: float = 0.0  # above 0: arrivals end at horizon_s, episodes once drained, or this later


def default_reward(scenario: Scenario) -> Reward:
    """An answer earns its class weight, unless it is late, less one for each second in the system.

    A refused request costs two answers; the bill counts 10,000 answers for a unit of money.
    """
    by_class = {"completed": 1.0, "slo_misses": -1.0, "number_in_system_s": -1.0, "shed": -2.0}
    return weighted_reward(scenario, by_class, {"bill": -1e4})


class _Lanes:
    """B lanes of an `Environment`: features for observations, a rule for illegal actions."""

    def __init__(self, episodes: Episodes, lanes: int) -> None:
        on_illegal, rule = episodes.on_illegal, "must be 'substitute' or 'raise'"
        check(on_illegal in ("substitute", "raise"), "on_illegal", on_illegal, rule)
        check(lanes >= 1, "num_envs", lanes, "must be at least 1")
        self._episodes, self._count = episodes, lanes
        self._reward = episodes.reward or default_reward(episodes.scenario)
        self._encoder = episodes.encoder or full_encoder(episodes.scenario)
        self._illegal = np.zeros(lanes, np.int64)
        self._rows = np.arange(lanes)
        self.features = self._encoder.features
        low, high = np.array([(f.low, f.high) for f in self.features], np.float32).T
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(action_table(episodes.scenario).size)

    def seed(self, generators: Sequence[np.random.Generator]) -> None:
        """Lane i draws its episodes from here on as the i-th generator says."""
        self._environment = Environment(
            self._episodes.scenario,
            self._episodes.workload,
            self._count,
            self._episodes.horizon_s,
            self._reward,
            generators,
            self._episodes.drain_s,
        )

    def action_masks(self) -> np.ndarray:
        """`[B, A]` True where the action is legal now."""
        return self._environment.decision()[1].copy()

    def reset(self, starts: np.ndarray) -> tuple[np.ndarray, Infos]:
        """Starts an episode where `starts [B]` is True; features `[B, F]` and infos of all."""
        observation, action_mask = self._environment.reset(starts)
        self._illegal[starts] = 0
        terms = np.zeros((self._count, len(self._reward.weights)))
        infos = self._infos(action_mask, terms, np.zeros(self._count))
        return self._encoder.encode(observation), infos

    def step(self, action: np.ndarray, starts: np.ndarray) -> StepOfLanes:
        """Lanes take their action `[B]`, those where `starts [B]` is True start an episode instead.

        Returns features `[B, F]`, reward, terminated, truncated (`[B]`) and infos.
        """
        step = self._environment.step(self._legal(np.asarray(action)))
        observation, action_mask = step.observation, step.action_mask
        terms, holding_s = step.reward_terms.copy(), step.holding_s.copy()
        terminated, truncated = step.terminated & ~starts, step.truncated & ~starts
        if starts.any():
            observation, action_mask = self._environment.reset(starts)
            self._illegal[starts] = 0
        infos = self._infos(action_mask, terms, holding_s)
        return self._encoder.encode(observation), step.reward, terminated, truncated, infos

    def _legal(self, action: np.ndarray) -> np.ndarray:
        """The actions `[B]` to take; counts the illegal ones, or leaves them to be refused."""
        actions = int(self.action_space.n)
        known = action.shape == (self._count,) and np.issubdtype(action.dtype, np.integer)
        known = known and bool(((action >= 0) & (action < actions)).all())
        check(known, "action", action, f"needs {self._count} whole numbers in 0..{actions - 1}")
        if self._episodes.on_illegal == "raise":
            return action
        _, action_mask = self._environment.decision()
        illegal = ~action_mask[self._rows, action] & self._environment.running()
        self._illegal += illegal
        return np.where(illegal, action_mask.argmax(axis=1), action)

    def _infos(self, action_mask: np.ndarray, terms: np.ndarray, holding_s: np.ndarray) -> Infos:
        return {
            "action_mask": action_mask.copy(),
            "reward_terms": terms,
            "holding_s": holding_s,
            "illegal_actions": self._illegal.copy(),
        }


class BatchwrightEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One cluster. Observations are the encoder's features `[F]`, actions the scenario's numbers.

    `truncated` at the horizon, `terminated` where the trace is drained. `info` has `action_mask`
    `[A]` (also `action_masks()`, as sb3-contrib asks for it), `reward_terms` `[T]` of the step in
    the order of `reward_term_names`, `holding_s`, the seconds that passed in it, and
    `illegal_actions`. Equal seeds give equal arrivals and noise, episode after episode. `features`
    names the numbers of an observation.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, **episodes: Any) -> None:
        """The keywords are the fields of `Episodes`; ValueError for a value that cannot be."""
        self._lanes = _Lanes(Episodes(**episodes), 1)
        self.features = self._lanes.features
        self.observation_space = self._lanes.observation_space
        self.action_space = self._lanes.action_space
        self._ended = True
        self._lanes.seed([self.np_random])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Infos]:
        """Starts an episode; the same as ever after the same seed, the next one without a seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._lanes.seed([self.np_random])
        self._ended = False
        features, infos = self._lanes.reset(np.ones(1, np.bool_))
        return features[0], _of_lane(infos)

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, Infos]:
        """Takes the action and runs to the next decision; ResetNeeded after the last one."""
        if self._ended:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset before step")
        *step, infos = self._lanes.step(np.array([action]), np.zeros(1, np.bool_))
        features, reward, terminated, truncated = (column[0] for column in step)
        self._ended = bool(terminated or truncated)
        return features, float(reward), bool(terminated), bool(truncated), _of_lane(infos)

    def action_masks(self) -> np.ndarray:
        """`[A]` True where the action is legal now."""
        return self._lanes.action_masks()[0]


def _of_lane(infos: Infos) -> Infos:
    """The infos of a lone lane."""
    return {name: column[0] for name, column in infos.items()}


class BatchwrightVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """B clusters in the lanes of one environment, which step together in compiled code.

    Lane i is what a `BatchwrightEnv` would be, as in Gymnasium's `SyncVectorEnv`: its seed is
    `seed + i`, or the i-th of a sequence. Where an episode has ended, the next step ignores the
    action and starts another one in its place, with reward 0 (next-step autoreset, the only kind
    of Gymnasium 1.0). `infos` holds the arrays of all lanes `[B, ...]`, and under an underscore and
    the same name where they were set: everywhere.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, num_envs: int = 1, **episodes: Any) -> None:
        """The keywords are the fields of `Episodes`; ValueError for a value that cannot be."""
        self._lanes = _Lanes(Episodes(**episodes), num_envs)
        self.num_envs, self.features = num_envs, self._lanes.features
        self.single_observation_space = self._lanes.observation_space
        self.single_action_space = self._lanes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended = np.ones(num_envs, np.bool_)
        self._lanes.seed([np_random()[0] for _ in range(num_envs)])

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Infos]:
        """Starts an episode in every lane."""
        if seed is not None:
            seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
            rule = f"needs one for each of {self.num_envs} lanes"
            check(len(seeds) == self.num_envs, "seed", seed, rule)
            super().reset(seed=seeds[0])
            self._lanes.seed([np_random(lane_seed)[0] for lane_seed in seeds])
        self._ended[:] = False
        features, infos = self._lanes.reset(np.ones(self.num_envs, np.bool_))
        return features, self._marked(infos)

    def step(self, actions: np.ndarray) -> StepOfLanes:
        """Every lane takes its action and runs to its next decision, or starts anew."""
        features, reward, terminated, truncated, infos = self._lanes.step(actions, self._ended)
        self._ended = terminated | truncated
        return features, reward, terminated, truncated, self._marked(infos)

    def action_masks(self) -> np.ndarray:
        """`[B, A]` True where the action is legal now."""
        return self._lanes.action_masks()

    def _marked(self, infos: Infos) -> Infos:
        everywhere = {f"_{name}": np.ones(self.num_envs, np.bool_) for name in infos}
        return infos | everywhere


_CLASSES = (RequestClass("fast", 0.1), RequestClass("slow", 0.5))
_SERVER = Replica((0.02, 0.05), (0.002, 0.005), (0.05, 0.05), 16)
_HIRED = replace(_SERVER, price_per_hour=3.6)
_DISPATCH = Scenario(_CLASSES, (_SERVER, _SERVER), (1, 2, 4, 8, 16))
_ROUTE = replace(
    _DISPATCH,
    replicas=(_SERVER, _SERVER, _SERVER.at_speed(0.5), _SERVER.at_speed(0.25)),
    decision=DecisionKind.ROUTE,
    queues=QueuePlace.REPLICA,
)
_TUNE = replace(
    _ROUTE,
    replicas=(_HIRED,) * 4,
    decision=DecisionKind.TUNE,
    set_points=SetPoints((1, 4, 16), (0.0, 0.01), replicas_on=(1, 2, 3, 4)),
    scaling=Scaling(cold_start_s=2.0),
)
_ON_OFF = MarkovModulatedWorkload.on_off((150.0, 150.0), on_s=10.0, off_s=10.0)

for _name, _scenario, _workload, _horizon_s in (
    ("Dispatch", _DISPATCH, PoissonWorkload((60.0, 60.0)), 10.0),
    ("Route", _ROUTE, PoissonWorkload((120.0, 120.0)), 10.0),
    ("Tune", _TUNE, _ON_OFF, 60.0),
):
    gymnasium.register(
        f"Batchwright/{_name}-v0",
        entry_point=BatchwrightEnv,
        vector_entry_point=BatchwrightVectorEnv,
        kwargs={"scenario": _scenario, "workload": _workload, "horizon_s": _horizon_s},
    )
