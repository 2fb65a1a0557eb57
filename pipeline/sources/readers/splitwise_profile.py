"""Profile of Splitwise (Mutinifni/splitwise-sim, data/perf_model.csv): ms by batch and lengths.

A row is one measured run of a (model, hardware, tensor parallelism, lengths, batch size); settings
repeat with no number. prompt_time is the prompt phase of a batch, token_time one token of it. The
rows of h100-80gb-pcap were not measured: they are those of h100-80gb with prompt_time x 1.30.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

COLUMNS = (
    "model",
    "hardware",
    "prompt_size",
    "batch_size",
    "token_size",
    "prompt_time",
    "token_time",
    "tensor_parallel",
)
PHASES = ("prompt", "token")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a profile of Splitwise, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """Each run is in `profiles`: batch latency = the time of the phase that the option names.

    The request class is model, prompt and token size (`llama2-70b_p512_t128`), the replica hardware
    and tensor parallelism (`a100-80gb_tp2`).
    """
    phase = intake.option("phase")
    rule = f"must be one of {', '.join(PHASES)}"
    check(phase in PHASES, intake.key("options.phase"), phase, rule)
    admit_files(intake, "splitwise_profile_profiles", COLUMNS, phase=phase)
    return intake.found(
        clock="monotonic",
        zone="UTC",
        notes=(
            f"the batch latency is the time of the {phase} phase",
            "h100-80gb-pcap is a scaled copy of h100-80gb, not a measurement",
        ),
    )


READER = Reader(
    title="Splitwise profile", looks_like=looks_like, read=read, options={"phase": "prompt"}
)
