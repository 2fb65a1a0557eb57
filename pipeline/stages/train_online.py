"""One policy-gradient agent, in the simulator on the training split."""

from pipeline.agents.artifact import save_agent
from pipeline.agents.curve import CurveRow, write_curve
from pipeline.agents.description import describe_online
from pipeline.agents.network_policy import NetworkPolicy
from pipeline.agents.networks import PolicyNetwork
from pipeline.agents.training import train
from pipeline.assembly import build_trial, read_study, training_environment
from pipeline.progress import progress
from pipeline.randomness import derived_seed, stream
from pipeline.settings import OnlineAgentSettings, Settings
from pipeline.stage import Folders, stage
from pipeline.validation.evaluation import evaluate
from simulator.observation import ENCODERS


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`agents/<agent>/` holds the network that did best on the validation split, or the last one.

    The last one where the agent's `validate_every` is 0.
    """
    name = settings.pick.agent
    agent = settings.agents[name]
    if not isinstance(agent, OnlineAgentSettings):
        raise ValueError(f"pick.agent = {name!r}: {agent.algorithm} is no online algorithm")
    study = read_study(settings, folders.data)
    encoder = ENCODERS[agent.encoder](study.scenario)
    seed = derived_seed(settings.seed, "train_online", name)
    environment = training_environment(settings, study, agent.lanes, stream(seed, "environment"))
    luck, episodes = derived_seed(seed, "validation"), settings.validate.episodes
    validation = build_trial(settings, study, "validation", episodes, luck)

    def score(network: PolicyNetwork) -> float:
        policy = NetworkPolicy(name, encoder, network, greedy=True)
        return float(evaluate(policy, validation).reward_per_s.mean())

    with progress(name, agent.steps) as advance:
        done = 0

        def tell(row: CurveRow) -> None:
            nonlocal done
            advance(row.steps - done, "" if row.return_mean is None else f"{row.return_mean:.2f}")
            done = row.steps

        trained = train(environment, encoder, agent, stream(seed, "learning"), tell, score)

    folder = folders.out / "agents" / name
    save_agent(folder, describe_online(name, agent, encoder, trained, seed), trained.network)
    write_curve(folder, trained.curve)


if __name__ == "__main__":
    main()
