"""Traces of arrivals and profiles of batches with known parameters, in the formats of others."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.pipeline.readers.writers import MISSING, SimulatedLog, azure_llm
from tests.statistical.format_logs import Service

RATE_RPS, GAP_CV = 5.0, 1.5
PROMPT_MEAN, OUTPUT_MEAN, TOKEN_CV = 900.0, 300.0, 0.5
SHARE = 0.3  # of the first class
CLASSES = ("ChatGPT", "GPT-4")
COLD_START_S, COLD_CV = 12.0, 0.4
SIZES = tuple(range(1, 17))  # of a profile
RUNS = 40  # of each size


def arrival_log(requests: int, generator: np.random.Generator) -> SimulatedLog:
    """Independent Gamma gaps, lognormal tokens, two classes; each takes less than a second."""
    shape = 1.0 / GAP_CV**2
    gap_s = generator.gamma(shape, 1.0 / (RATE_RPS * shape), requests)
    arrival_us = np.rint(np.cumsum(gap_s) * 1e6).astype(np.int64)
    sigma = np.sqrt(np.log1p(TOKEN_CV**2))
    tokens = [
        np.maximum(1, np.rint(mean * np.exp(sigma * normal - sigma**2 / 2))).astype(np.int64)
        for mean, normal in (
            (PROMPT_MEAN, generator.standard_normal(requests)),
            (OUTPUT_MEAN, generator.standard_normal(requests)),
        )
    ]
    departure_us = arrival_us + generator.integers(1, 1000, requests) * 1000
    first = generator.random(requests) < SHARE
    return SimulatedLog(
        [f"q{row}" for row in range(requests)],
        arrival_us,
        np.full(requests, MISSING),
        departure_us,
        departure_us,
        [CLASSES[0] if is_first else CLASSES[1] for is_first in first],
        [""] * requests,
        np.ones(requests),
        *tokens,
        ["completed"] * requests,
        np.full(requests, MISSING),
    )


def write_azure_2024(log: SimulatedLog, path: Path) -> None:
    """The trace of Azure as of 2024: microseconds and an offset."""
    azure_llm.write(log, path)
    header, *rows = path.read_text().splitlines()
    cells = [row.split(",", 1) for row in rows]
    path.write_text("\n".join([header, *(f"{at[:-1]}+00:00,{rest}" for at, rest in cells)]) + "\n")


def write_azure_2025(log: SimulatedLog, path: Path) -> None:
    """The trace of Azure as of 2025: milliseconds, Z, and a column of images."""
    azure_llm.write(log, path)
    cells = [row.split(",", 1) for row in path.read_text().splitlines()[1:]]
    rows = [f"{at[:-4].replace(' ', 'T')}Z,0,{rest}" for at, rest in cells]
    path.write_text("\n".join(["TIMESTAMP,NumImages,ContextTokens,GeneratedTokens", *rows]) + "\n")


def write_burstgpt_1(log: SimulatedLog, path: Path) -> None:
    """The first trace of BurstGPT: whole seconds, no session and no elapsed time."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    columns = (log.arrival_us, log.request_class, log.prompt_tokens, log.output_tokens)
    for at_us, name, prompt, output in zip(*columns, strict=True):
        at_s = at_us // 1_000_000
        lines.append(f"{at_s},{name},{prompt},{output},{prompt + output},API log")
    path.write_text("\n".join(lines) + "\n")


class Profile(NamedTuple):
    """Measured mean latencies of a service by batch size."""

    latency_s: np.ndarray  # [S] s, of SIZES
    deviation_s: np.ndarray  # [S] s, of single runs


def profile(service: Service, generator: np.random.Generator) -> Profile:
    """RUNS batches of each of SIZES."""
    taken_s = np.array(
        [[service.draw_s(size, generator) for _ in range(RUNS)] for size in SIZES], float
    )
    return Profile(taken_s.mean(1), taken_s.std(1, ddof=1))


def write_nexus(found: Profile, name: str, path: Path) -> None:
    """A profile of Nexus: microseconds, a mean and a deviation for each size."""
    rows = [
        f"{size},{1e6 * mean_s:.3f},{1e6 * spread_s:.3f},0"
        for size, mean_s, spread_s in zip(SIZES, *found, strict=True)
    ]
    head = [f"{name}:1:1", "GPU", "Forward latency", "batch,latency(us),std(us),memory(B)"]
    path.write_text("\n".join([*head, *rows, "Preprocess latency", "mean(us),std(us)"]) + "\n")


def write_splitwise(found: dict[str, Profile], path: Path) -> None:
    """A profile of Splitwise: milliseconds, several models in a file."""
    lines = [
        "model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,"
        "token_time,e2e_time,tensor_parallel"
    ]
    for name, each in found.items():
        lines += [
            f"{name},gpu,512,{size},128,1,1,{1e3 * mean_s:.6f},1,1,1"
            for size, mean_s in zip(SIZES, each.latency_s, strict=True)
        ]
    path.write_text("\n".join(lines) + "\n")


def write_perf_analyzer(latency_s: float, path: Path) -> None:
    """A report of perf_analyzer at one load, of clients with one batch size."""
    stages = "Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output"
    infer_us = 1e6 * latency_s - 30.0
    path.write_text(
        f"Concurrency,Inferences/Second,{stages}\n1,{1 / latency_s:.3f},5,10,{infer_us:.3f},20\n"
    )


def write_cold_starts(found: dict[str, np.ndarray], path: Path) -> None:
    """Loading times of ServerlessLLM: copies of each model, by number."""
    loads = [
        {"model_name": f"{name}_{copy}", "loading_time": float(taken_s)}
        for name, starts_s in found.items()
        for copy, taken_s in enumerate(starts_s)
    ]
    path.write_text(json.dumps(loads))
