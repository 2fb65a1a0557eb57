"""What agent.json says of an agent that was trained online."""

from dataclasses import asdict

from pipeline.agents.artifact import AgentDescription
from pipeline.agents.training import TrainedAgent
from pipeline.settings import OnlineAgentSettings
from simulator.observation import Encoder


def describe_online(
    name: str, agent: OnlineAgentSettings, encoder: Encoder, trained: TrainedAgent, seed: int
) -> AgentDescription:
    """The description to save beside the trained network; `seed` made all its random streams."""
    return AgentDescription(
        name=name,
        algorithm=agent.algorithm,
        encoder=agent.encoder,
        features=[feature.name for feature in encoder.features],
        actions=trained.network.actions,
        network=trained.network.description,
        score="logits",
        seed=seed,
        training={
            **asdict(agent),
            "reward_scale": trained.reward_scale,
            "best_update": trained.best_update,
        },
    )
