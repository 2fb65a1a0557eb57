"""The only file that knows d3rlpy (2.8.1). Import it late: it takes seconds."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import structlog
import torch
from d3rlpy import ActionSpace
from d3rlpy.algos import DiscreteBCConfig, DiscreteCQLConfig, QLearningAlgoBase
from d3rlpy.dataset import (
    InfiniteBuffer,
    ReplayBuffer,
    Signature,
    Transition,
    TransitionMiniBatch,
)
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.models.encoders import EncoderFactory, register_encoder_factory
from d3rlpy.models.q_functions import QFunctionFactory, register_q_func_factory
from d3rlpy.models.torch import Encoder
from d3rlpy.models.torch.q_functions.base import QFunctionOutput
from d3rlpy.models.torch.q_functions.mean_q_function import (
    DiscreteMeanQFunction,
    DiscreteMeanQFunctionForwarder,
)

from pipeline.agents.networks import MASKED_SCORE, PolicyNetwork, build_body
from pipeline.offline.columns import LearnerColumns
from pipeline.offline.settings import DiscreteBCSettings, DiscreteCQLSettings, OfflineSettings

# d3rlpy configures structlog for the whole process, and would report every epoch.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

# With this gamma, gamma**interval is the discount that LearnerColumns.interval is the -log of.
GAMMA = math.exp(-1)

CurveRow = dict[str, float]


class ColumnarReplayBuffer(ReplayBuffer):
    """Minibatches straight from flat arrays, an observation being `[features, action mask]`.

    d3rlpy's own buffer makes one object a transition and draws from NumPy's global generator. A
    truncated transition bootstraps from its closing row; a terminated one does not bootstrap.
    """

    def __init__(self, columns: LearnerColumns, generator: np.random.Generator) -> None:
        actions = columns.action_mask.shape[1]
        width = columns.features.shape[1] + actions
        super().__init__(
            InfiniteBuffer(),
            observation_signature=Signature([np.dtype(np.float32)], [[width]]),
            action_signature=Signature([np.dtype(np.int32)], [[1]]),
            reward_signature=Signature([np.dtype(np.float32)], [[1]]),
            action_space=ActionSpace.DISCRETE,
            action_size=actions,
        )
        self._columns, self._generator = columns, generator

    @property
    def transition_count(self) -> int:
        """The number of transitions N."""
        return len(self._columns.action)

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """`[n, F + A]` float32: normalized features and action mask of `rows`, closing or not."""
        columns = self._columns
        return np.concatenate(
            [columns.features[rows], columns.action_mask[rows]], axis=1, dtype=np.float32
        )

    def minibatch(self, rows: np.ndarray) -> TransitionMiniBatch:
        """The transitions `rows`, each in `[0, N)`."""
        columns = self._columns
        action = columns.action[rows, None].astype(np.float32)
        return TransitionMiniBatch(
            observations=self.observations(rows),
            actions=action,
            rewards=columns.reward[rows, None],
            next_observations=self.observations(columns.next_row[rows]),
            next_actions=np.zeros_like(action),  # no algorithm here reads them
            terminals=columns.terminated[rows, None].astype(np.float32),
            intervals=columns.interval[rows, None],
            transitions=(),
        )

    def sample_transition_batch(self, batch_size: int) -> TransitionMiniBatch:
        """Transitions drawn uniformly, with replacement."""
        return self.minibatch(self._generator.integers(self.transition_count, size=batch_size))

    def sample_transition(self) -> Transition:
        """The first transition. d3rlpy asks for one, to learn the shapes."""
        first = self.minibatch(np.array([0]))
        return Transition(
            observation=first.observations[0],
            action=first.actions[0],
            reward=first.rewards[0],
            next_observation=first.next_observations[0],
            next_action=first.next_actions[0],
            terminal=float(first.terminals[0, 0]),
            interval=1,  # an int by its type; shapes are all that is asked
            rewards_to_go=first.rewards,
        )


class BodyEncoder(Encoder):
    """The body of a policy network, which sees the features and not the mask."""

    def __init__(self, kind: str, features: int, hidden: list[int]) -> None:
        super().__init__()
        self.features = features
        self.body = build_body(kind, features, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, F + A]` -> `[B, H]`."""
        hidden: torch.Tensor = self.body(x[:, : self.features])
        return hidden


@dataclass()
class BodyEncoderFactory(EncoderFactory):
    """Builds the encoder of an observation `[features, action mask]`."""

    kind: str = "mlp"
    features: int = 1
    hidden: list[int] = field(default_factory=list)

    def create(self, observation_shape: Any) -> BodyEncoder:
        """The encoder; d3rlpy probes its output size."""
        return BodyEncoder(self.kind, self.features, self.hidden)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "batchwright_body"


class MaskedActionValues(DiscreteMeanQFunction):
    """Action values, MASKED_SCORE where the mask at the observation's tail forbids the action.

    So the maximum in the target, the greedy action and CQL's log-sum-exp all keep to the mask.
    """

    def __init__(self, encoder: Encoder, hidden_size: int, action_size: int) -> None:
        super().__init__(encoder, hidden_size, action_size)
        self.actions = action_size

    def forward(self, x: torch.Tensor) -> QFunctionOutput:
        """`[B, F + A]` -> action values `[B, A]`."""
        value = super().forward(x).q_value
        legal = x[:, -self.actions :] > 0.5
        return QFunctionOutput(torch.where(legal, value, MASKED_SCORE), None, None)


class SquaredErrorForwarder(DiscreteMeanQFunctionForwarder):
    """The loss of `MaskedActionValues`. d3rlpy's is Huber's, which does not estimate a mean."""

    def compute_error(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        target: torch.Tensor,
        terminals: torch.Tensor,
        gamma: float | torch.Tensor = 0.99,
        reduction: str = "mean",
    ) -> torch.Tensor:
        """`(value - (reward + gamma * target * (1 - terminal)))^2`, `[B, 1]` or their mean."""
        value = self.compute_expected_q(observations).gather(1, actions.view(-1, 1))
        error = torch.square(value - (rewards + gamma * target * (1 - terminals)))
        return error.mean() if reduction == "mean" else error


@dataclass()
class MaskedActionValuesFactory(QFunctionFactory):
    """Builds `MaskedActionValues` and its loss."""

    def create_discrete(
        self, encoder: Encoder, hidden_size: int, action_size: int
    ) -> tuple[MaskedActionValues, SquaredErrorForwarder]:
        """The network and what computes its loss and targets."""
        network = MaskedActionValues(encoder, hidden_size, action_size)
        return network, SquaredErrorForwarder(network, action_size)

    @staticmethod
    def get_type() -> str:
        """The name in d3rlpy's registry."""
        return "batchwright_masked"


register_encoder_factory(BodyEncoderFactory)
register_q_func_factory(MaskedActionValuesFactory)


def build_learner(settings: OfflineSettings, features: int) -> QLearningAlgoBase[Any, Any]:
    """d3rlpy's algorithm for the settings; `fit` draws its weights from torch's generator."""
    shared: dict[str, Any] = {
        "batch_size": settings.minibatch,
        "learning_rate": settings.learning_rate,
        "gamma": GAMMA,
        "encoder_factory": BodyEncoderFactory(settings.network, features, list(settings.hidden)),
    }
    config: DiscreteBCConfig | DiscreteCQLConfig
    match settings:
        case DiscreteBCSettings():
            config = DiscreteBCConfig(**shared, beta=settings.logit_penalty)
        case DiscreteCQLSettings():
            config = DiscreteCQLConfig(
                **shared,
                q_func_factory=MaskedActionValuesFactory(),
                target_update_interval=settings.target_update_interval,
                alpha=settings.conservative_weight,
            )
        case _:
            raise ValueError(f"settings = {settings!r}: must be those of an offline agent")
    return config.create("cpu:0")


def fit(
    learner: QLearningAlgoBase[Any, Any],
    buffer: ColumnarReplayBuffer,
    settings: OfflineSettings,
    progress: Callable[[CurveRow], None] | None = None,
) -> list[CurveRow]:
    """Train for exactly `settings.updates`; one row an epoch: `update` and the mean losses of it.

    `progress` is called with each row. Raises RuntimeError where a loss or a weight is not finite,
    or another number of updates was made.
    """
    curve: list[CurveRow] = []
    for epoch, losses in learner.fitter(
        buffer,
        n_steps=settings.updates,
        n_steps_per_epoch=settings.updates_per_epoch,
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
    ):
        update = epoch * settings.updates_per_epoch
        # d3rlpy adds wall times: the curve must not depend on the machine's speed.
        row = {name: value for name, value in losses.items() if not name.startswith("time_")}
        weights = _trained_module(learner).parameters()
        finite = all(bool(torch.isfinite(weight).all()) for weight in weights)
        if not finite or not all(map(math.isfinite, row.values())):
            raise RuntimeError(f"update {update}: weights or losses are not finite: {row}")
        curve.append({"update": update, **row})
        if progress is not None:
            progress(curve[-1])
    if learner.grad_step != settings.updates:
        raise RuntimeError(f"{learner.grad_step} updates made of {settings.updates}")
    return curve


def _trained_module(learner: QLearningAlgoBase[Any, Any]) -> torch.nn.Module:
    if isinstance(learner.config, DiscreteBCConfig):
        module: torch.nn.Module = learner.impl.modules.imitator
    else:
        module = learner.impl.q_function[0]
    return module


def copy_weights(learner: QLearningAlgoBase[Any, Any], network: PolicyNetwork) -> None:
    """Body and head of `network` become those that the learner has trained."""
    state = _trained_module(learner).state_dict()
    for prefix, part in (("_encoder.body.", network.body), ("_fc.", network.head)):
        part.load_state_dict(
            {
                name.removeprefix(prefix): value
                for name, value in state.items()
                if name.startswith(prefix)
            }
        )


def learner_scores(learner: QLearningAlgoBase[Any, Any], observations: np.ndarray) -> np.ndarray:
    """d3rlpy's own scores `[n, A]` for observations `[n, F + A]`, by its own way of predicting.

    Action values for CQL, unmasked log-probabilities for behavior cloning.
    """
    if isinstance(learner.config, DiscreteBCConfig):
        with torch.no_grad():
            distribution = _trained_module(learner)(torch.from_numpy(observations))
        return np.asarray(distribution.logits)
    rows, actions = len(observations), learner.impl.action_size
    value = learner.predict_value(
        np.repeat(observations, actions, axis=0), np.tile(np.arange(actions), rows)
    )
    return np.asarray(value).reshape(rows, actions)
