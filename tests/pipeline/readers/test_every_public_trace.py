"""Every file below TRACES_DIR: read by the one reader that knows it, or refused with the reason.

The numbers of rows are those of each folder's PROVENANCE.md. Where that counts lines, the header is
taken off here.
"""

import csv
import gzip
import os
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.sources.detect import detect
from pipeline.store import read_table, warehouse_builder
from tests.pipeline.readers.csv_traces import TRACES, needs_traces

pytestmark = needs_traces
DESCRIPTIONS = ("PROVENANCE*", "README*", "LICENSE*")

# kind: path: rows of its table
READ = {
    "aibrix": {  # lines of the file - 1
        f"aibrix-routing/v0.3.0/{policy}_qps{rate}.csv": rows
        for policy, counts in {
            "naive": (55, 144, 277, 365, 404),
            "aibrix_naive": (55, 144, 277, 365, 405),
            "aibrix_naive_prefix_routing": (55, 144, 277, 365, 369),
        }.items()
        for rate, rows in zip((0.5, 1.3, 2.5, 3.3, 4.1), counts, strict=True)
    },
    "azure_functions_2019": {  # the calls in its cells, added up; 4 functions
        "azure-functions/azure2019_example_invocations.csv": 4_525,
    },
    "azure_functions_2021": {"azure-functions/Azure2021_200.csv": 199},
    "azure_llm": {
        "azure-llm-2023/AzureLLMInferenceTrace_code.csv": 8_819,
        "azure-llm-2023/AzureLLMInferenceTrace_conv.csv": 19_366,
    },
    "burstgpt": {
        "burstgpt-head/BurstGPT_1.head.csv": 5,
        "burstgpt-head/BurstGPT_3.head.csv": 4,
    },
    "burstgpt_replay": {
        "burstgpt-replay-vllm/detail_log_scale100_prompt500.json.gz": 500,
        "burstgpt-replay-vllm/detail_log_scale2000_prompt500.json.gz": 500,
    },
    "cold_start_log": {
        f"serverlessllm-coldstart/{run}.json": int(run.split("_")[-2])
        for run in (
            "a5000_2024/facebook_opt-6.7b_phantom_30_random",
            "a5000_2024/facebook_opt-6.7b_safetensors_30_random",
            "h100_2025/cached/Qwen_Qwen3-32B_safetensors_5_cached",
            "h100_2025/cached/Qwen_Qwen3-32B_sllm_5_cached",
            "h100_2025/cached/deepseek-ai_DeepSeek-R1-Distill-Qwen-32B_safetensors_5_cached",
            "h100_2025/cached/deepseek-ai_DeepSeek-R1-Distill-Qwen-32B_sllm_5_cached",
            "h100_2025/random/Qwen_Qwen3-32B_safetensors_30_random",
            "h100_2025/random/Qwen_Qwen3-32B_sllm_30_random",
            "h100_2025/random/deepseek-ai_DeepSeek-R1-Distill-Qwen-32B_safetensors_30_random",
            "h100_2025/random/deepseek-ai_DeepSeek-R1-Distill-Qwen-32B_sllm_30_random",
            "h100_2025/random/meta-llama_Llama-3.1-8B-Instruct_safetensors_30_random",
            "h100_2025/random/meta-llama_Llama-3.1-8B-Instruct_sllm_30_random",
        )
    },
    "genai_spans": {
        "otel-genai-spans/parallel_requests.json": 5,
        "otel-genai-spans/simple_chain.json": 3,
    },
    "llmservingsim": {
        f"llmservingsim-vllm/{run}/requests.jsonl": 300
        for run in (
            "RTX4090/Llama-3.1-8B",
            "RTXPRO6000/Llama-3.1-8B",
            "RTXPRO6000/Qwen3-30B-A3B-Instruct-2507",
        )
    },
    "mooncake": {"mooncake/conversation_trace.jsonl.gz": 12_031},
    "nexus_profile": {
        "nexus-profiles/TITAN_X_Pascal/caffe_vgg16_1.txt": 174,
        "nexus-profiles/TITAN_X_Pascal/caffe_vgg_s_1.txt": 512,
        "nexus-profiles/TITAN_X_Pascal/darknet_yolo9000_1.txt": 24,
    },
    "ragpulse": {"ragpulse/0_trace.jsonl.gz": 7_106},
    "splitwise_profile": {"splitwise-sim/perf_model.csv": 1_260},
    "splitwise_trace": {"splitwise-sim/test_trace.csv": 3},
    "vidur_trace": {"vidur/splitwise_code.csv.gz": 8_819, "vidur/splitwise_conv.csv.gz": 19_366},
}
# Traces of rates, from which requests are drawn: windows of 600 s of each client.
WINDOWS = {
    "servegen/language/m-mid/chunk-14-trace.csv.gz": 2_016,
    "servegen/language/m-mid/chunk-23-trace.csv.gz": 2_016,
    "servegen/language/m-small/chunk-0-trace.csv": 2_016,
    "servegen/language/m-small/chunk-14-trace.csv.gz": 2_016,
    "servegen/language/m-small/chunk-18-trace.csv.gz": 2_016,
    "servegen/language/m-small/chunk-27-trace.csv.gz": 2_016,
    "servegen/multimodal/mm-image/chunk-0-trace.csv": 144,
    "servegen/multimodal/mm-image/chunk-11-trace.csv": 144,
    "servegen/multimodal/mm-image/chunk-5-trace.csv": 144,
    "servegen/multimodal/mm-image/chunk-7-trace.csv": 144,
    "servegen/reason/deepseek-r1/chunk-12-trace.csv": 144,
    "servegen/reason/deepseek-r1/chunk-13-trace.csv": 144,
    "servegen/reason/deepseek-r1/chunk-3-trace.csv": 144,
    "servegen/reason/deepseek-r1/chunk-48-trace.csv": 144,
}
# pattern: what the refusal says of the file
REFUSED = {
    "aiconfigurator/silicon_sample.csv.gz": "one mean TTFT and TPOT for each run",
    "azure-functions/azure2019_example_durations.csv": "percentiles of each function's day",
    "azure-functions/azure2019_example_memory.csv": "percentiles of each app's memory",
    "burstgpt-replay-vllm/gpu_log_*.json.gz": "memory, utilization and temperature",
    "burstgpt-replay-vllm/vllm_log_*.csv": "numbers running and pending",
    "distserve-profiles/max_num_tokens.csv": "how many tokens fit the memory",
    "distserve-profiles/profiler-a100-80g.*.json": "a fitted model",
    "inference-perf-summaries/stage_?_lifecycle_metrics.json": "percentiles of a load stage",
    "llmservingsim-vllm/RTX*/meta.json": "the engine's settings",
    "llmservingsim-vllm/RTX*/timeseries.csv": "numbers running and waiting",
    "llmservingsim-vllm/profiles/*/attention.csv.gz": "times of one kernel",
    "llmservingsim-vllm/profiles/*/dense.csv": "times of single layers by number of tokens",
    "llmservingsim-vllm/profiles/*/per_sequence.csv": "times of single layers by number of sequ",
    "servegen/*/chunk-*-dataset.json.gz": "token lengths by six hours, no arrival",
    "triton-model-analyzer/*-inference.csv": "throughput and p99 latency of whole runs",
    "triton-model-analyzer/*-gpu.csv": "memory, utilization and power of whole runs",
    "vidur/profiling/*/mlp.csv.gz": "times of single GPU operators",
}
TABLE = {"cold_start_log": "cold_starts", "nexus_profile": "profiles"}
TABLE["splitwise_profile"] = "profiles"
KINDS = {path: kind for kind, paths in READ.items() for path in paths}
KINDS |= dict.fromkeys(WINDOWS, "servegen")


def files() -> list[str]:
    """The paths of all files below TRACES_DIR, those that describe others apart."""
    root = Path(TRACES or ".")
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not any(fnmatch(path.name, of) for of in DESCRIPTIONS)
    )


FILES = files() if TRACES else []
REFUSED_FILES = [path for path in FILES if any(fnmatch(path, pattern) for pattern in REFUSED)]


def settings(path: str, **options: float) -> SourceSettings:
    return SourceSettings(kind="auto", path=path, root="traces", options=options)


def first_windows(path: str) -> list[tuple[float, int]]:
    """(start in s, requests) of the windows of a client of ServeGen: rate x 600 s, rounded."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(os.path.join(str(TRACES), path), "rt", newline="") as file:
        return [(float(row[0]), round(float(row[1]) * 600)) for row in csv.reader(file)]


def busy_window(path: str) -> tuple[float, int]:
    """The first window of a client with requests."""
    return next((start_s, requests) for start_s, requests in first_windows(path) if requests)


def test_the_lists_have_every_file_once_and_no_other():
    read = sorted([*KINDS, *REFUSED_FILES])
    assert read == FILES
    assert not set(KINDS) & set(REFUSED_FILES)
    for pattern in REFUSED:
        assert any(fnmatch(path, pattern) for path in FILES), pattern


@pytest.mark.parametrize("path", FILES)
def test_exactly_the_right_reader_knows_a_file(path):
    assert detect(Path(str(TRACES)) / path, path) == KINDS.get(path, "aggregate")


@pytest.mark.parametrize("path", REFUSED_FILES)
def test_a_file_of_aggregates_is_refused_with_what_it_holds(path, tmp_path):
    said = next(said for pattern, said in REFUSED.items() if fnmatch(path, pattern))
    builder = SimpleNamespace(source=lambda name, rules: None)
    with pytest.raises(ValueError, match="that can calibrate nothing: give ") as refused:
        read_source(builder, "log", settings(path), tmp_path, IngestSettings())
    assert str(refused.value).startswith(f"{path}: ")
    assert f": it holds {said}" in str(refused.value)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """All readable files in one warehouse: its tables, and the names of its sources by path."""
    out = tmp_path_factory.mktemp("traces")
    names = {path: f"log_{number}" for number, path in enumerate(KINDS)}
    with warehouse_builder(out) as builder:
        for path, name in names.items():
            options = {}
            if path in WINDOWS:
                start_s, _ = busy_window(path)
                options = {"from_s": start_s, "to_s": start_s + 600}
            read_source(builder, name, settings(path, **options), out, IngestSettings(0.0))
    tables = ("sources", "requests", "profiles", "cold_starts", "rejects")
    return {table: read_table(out, table) for table in tables}, names


@pytest.mark.parametrize("path", KINDS)
def test_a_file_is_read_whole_and_its_kind_is_recorded(path, warehouse):
    tables, names = warehouse
    kind = KINDS[path]
    rows = READ[kind][path] if kind in READ else busy_window(path)[1]
    mine = pl.col("source") == names[path]
    assert tables["sources"].filter(mine)["kind"].item() == kind
    assert tables[TABLE.get(kind, "requests")].filter(mine).height == rows


def test_none_of_their_rows_is_rejected(warehouse):
    tables, _ = warehouse
    assert tables["rejects"].height == 0


@pytest.mark.parametrize("path", WINDOWS)
def test_a_client_has_the_windows_that_its_provenance_says(path):
    assert len(first_windows(path)) == WINDOWS[path]


@pytest.mark.parametrize("name", ["code", "conv"])
def test_the_azure_traces_and_vidurs_copies_of_them_agree_row_by_row(name, warehouse):
    # PROVENANCE of vidur: times to 1e-12 s, tokens exactly. Ours has whole microseconds.
    tables, names = warehouse
    ours, theirs = (
        tables["requests"]
        .filter(pl.col("source") == names[path])
        .select("arrival_us", "prompt_tokens", "output_tokens")
        for path in (
            f"azure-llm-2023/AzureLLMInferenceTrace_{name}.csv",
            f"vidur/splitwise_{name}.csv.gz",
        )
    )
    assert ours.equals(theirs)
