"""One offline agent, from the transitions of all behavior policies."""

from pipeline.agents.artifact import save_agent
from pipeline.agents.curve import write_rows
from pipeline.assembly import read_study
from pipeline.offline.training import train_offline
from pipeline.progress import progress
from pipeline.randomness import derived_seed
from pipeline.settings import OfflineAgentSettings, Settings
from pipeline.stage import Folders, stage
from pipeline.transitions import read_transitions


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`agents/<agent>/` holds the network, its description and its learning curve."""
    name = settings.pick.agent
    agent = settings.agents[name]
    if not isinstance(agent, OfflineAgentSettings):
        raise ValueError(f"pick.agent = {name!r}: {agent.algorithm} is no offline algorithm")
    study = read_study(settings, folders.data)
    transitions = read_transitions(
        [folders.data / "transitions" / f"{policy}.parquet" for policy in settings.run.behavior]
    )
    print(
        f"{name}: {len(transitions.action):,} transitions of {len(settings.run.behavior)} policies"
    )
    seed = derived_seed(settings.seed, "train_offline", name)
    with progress(name, agent.updates) as advance:
        description, network, curve = train_offline(
            agent.algorithm,
            transitions,
            study.reward.weights,
            agent,
            seed,
            lambda row: advance(agent.updates_per_epoch, ""),
        )

    folder = folders.out / "agents" / name
    save_agent(folder, {**description, "name": name}, network)
    write_rows(folder, curve)


if __name__ == "__main__":
    main()
