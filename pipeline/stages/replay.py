"""One behavior policy plays the training split in the simulator; its transitions are kept."""

import json

from pipeline.assembly import read_study, training_environment
from pipeline.randomness import derived_seed, stream
from pipeline.settings import Settings
from pipeline.stage import Folders, stage
from pipeline.transitions import Run, record_transitions, transition_schema, write_transitions
from simulator.observation import full_encoder
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`transitions/<policy>.parquet` holds whole episodes of the mixture of rule and chance."""
    name, run = settings.pick.policy, settings.run.behavior
    if name not in run:
        raise ValueError(f"pick.policy = {name!r}: must be in run.behavior: {', '.join(run)}")
    behavior = settings.policies[name]
    study = read_study(settings, folders.data)
    parameters = behavior.parameters
    if parameters is None:
        text = (folders.data / "heuristics.json").read_text(encoding="utf-8")
        tuned = json.loads(text)["rules"]
        if behavior.rule not in tuned:
            raise ValueError(
                f"policies.{name}.rule = {behavior.rule!r}: cannot run in the scenario"
            )
        parameters = tuned[behavior.rule]["parameters"]
    rule = build_policy(behavior.rule, study.scenario, parameters)
    seed = derived_seed(settings.seed, "replay", name)
    environment = training_environment(
        settings, study, settings.replay.lanes, stream(seed, "environment")
    )
    encoder = full_encoder(study.scenario)
    table = record_transitions(
        environment,
        EpsilonMixture(rule, behavior.epsilon),
        encoder,
        settings.replay.episodes,
        stream(seed, "actions"),
        Run(run.index(name), seed),
    )

    path = folders.out / "transitions" / f"{name}.parquet"
    write_transitions(path, table, transition_schema(study.scenario, encoder))
    print(f"{name}: {len(table):,} rows of {settings.replay.episodes} episodes")


if __name__ == "__main__":
    main()
