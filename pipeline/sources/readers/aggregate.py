"""Files that hold no request: means, percentiles and samples, of which no simulator can be fitted.

Benchmark reports, metrics that a server exports, profiles of operators and fitted coefficients look
like logs, and are what is left when nobody kept a log. Each is recognized, and refused with what it
holds and what to give instead (reference/traces.md, sections 1c and 2). A format that is not in the
list below is simply unknown.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

REQUESTS = "give a log with a record for each request"
PROFILES = "give a request log, or a table of batch latency by batch size"


class Aggregate(NamedTuple):
    """A format without requests."""

    title: str
    holds: str  # what is in it instead
    instead: str  # what to give
    marked: Callable[[Sample], str | None]  # what it is recognized by, or None


def columns(*names: str) -> Callable[[Sample], str | None]:
    """Recognizes a CSV file by its columns."""
    said = f"its header names {', '.join(names)}"
    return lambda sample: said if set(names) <= set(sample.header) else None


def keys(*names: str) -> Callable[[Sample], str | None]:
    """Recognizes a JSON document by keys near its beginning."""
    said = f"it is JSON with {', '.join(names)}"

    def marked(sample: Sample) -> str | None:
        return said if sample.json_text and all(f'"{n}"' in sample.head for n in names) else None

    return marked


def lines(pattern: str, said: str) -> Callable[[Sample], str | None]:
    """Recognizes a text by one of its lines."""
    compiled = re.compile(pattern)
    return lambda sample: said if any(compiled.search(line) for line in sample.lines) else None


def operator_times(sample: Sample) -> str | None:
    """Recognizes the operator profiles of Vidur."""
    timed = any(name.startswith("time_stats.") for name in sample.header)
    return "its header names time_stats.<operator>.mean" if timed else None


def length_histograms(sample: Sample) -> str | None:
    """Recognizes the lengths of a client of ServeGen."""
    found = re.match(r'\s*\{\s*"\d+(\.\d+)?":\s*\{\s*"\w+":\s*"\{', sample.head)
    return "its keys are seconds, its values histograms in strings" if found else None


COMMENT = r"^# (HELP|TYPE) [a-zA-Z_:][\w:]* "
# Metrics of servers and of their exporters, where the comments were filtered out.
METRICS = (
    r"^(vllm:|sglang:|nv_|tgi_|ray_|envoy_|litellm_|process_|python_)\w+(\{[^}]*\})? [-+\d.NI]"
)

AGGREGATES = (
    Aggregate(
        "report of Triton's Model Analyzer",
        "throughput and p99 latency of whole runs, no times of requests or batches",
        "give Triton's trace file, its statistics (v2/models/stats), or a perf_analyzer report",
        columns("Model", "Model Config Path", "Throughput (infer/sec)"),
    ),
    Aggregate(
        "GPU report of Triton's Model Analyzer",
        "memory, utilization and power of whole runs",
        "give Triton's trace file or its statistics (v2/models/stats)",
        columns("Model Config Path", "GPU UUID"),
    ),
    Aggregate(
        "measured runs of aiconfigurator",
        "one mean TTFT and TPOT for each run",
        REQUESTS,
        columns("silicon_ttft_ms", "silicon_tpot_ms"),
    ),
    Aggregate(
        "summary of inference-perf",
        "percentiles of a load stage",
        "give the per-request report (per_request_lifecycle_metrics) as a log, or the server's",
        keys("load_summary", "successes"),
    ),
    Aggregate(
        "result of vLLM's benchmark",
        "means and percentiles of a run",
        REQUESTS,
        keys("request_throughput", "mean_ttft_ms"),
    ),
    Aggregate(
        "summary of an MLPerf run",
        "percentiles of a run at one load",
        REQUESTS,
        lines("^MLPerf Results Summary", "it has the line MLPerf Results Summary"),
    ),
    Aggregate(
        "statistics of Locust",
        "percentiles of each endpoint",
        REQUESTS,
        columns("Type", "Name", "Request Count", "Median Response Time"),
    ),
    Aggregate(
        "coefficients of DistServe",
        "a fitted model, not what was measured",
        PROFILES,
        keys("decoding_smallbs", "decoding_largebs"),
    ),
    Aggregate(
        "memory table of DistServe",
        "how many tokens fit the memory, no times",
        PROFILES,
        columns("model", "tp", "pp", "max_num_tokens"),
    ),
    Aggregate(
        "operator profile of Vidur",
        "times of single GPU operators by number of tokens, not of batches",
        PROFILES,
        operator_times,
    ),
    Aggregate(
        "layer profile of LLMServingSim",
        "times of single layers by number of tokens, not of batches",
        "give a run's requests.jsonl",
        columns("layer", "tokens", "time_us"),
    ),
    Aggregate(
        "layer profile of LLMServingSim",
        "times of single layers by number of sequences, not of batches",
        "give a run's requests.jsonl",
        columns("layer", "sequences", "time_us"),
    ),
    Aggregate(
        "attention profile of LLMServingSim",
        "times of one kernel, not of batches",
        "give a run's requests.jsonl",
        columns("prefill_chunk", "kv_prefill", "n_decode", "time_us"),
    ),
    Aggregate(
        "time series of LLMServingSim's vLLM runs",
        "numbers running and waiting once a second",
        "give the run's requests.jsonl, or its folder",
        columns("t", "gen_throughput", "running", "waiting"),
    ),
    Aggregate(
        "description of LLMServingSim's vLLM runs",
        "the engine's settings, no request",
        "give the run's requests.jsonl, or its folder",
        keys("vllm_version", "engine_kwargs"),
    ),
    Aggregate(
        "engine samples of a BurstGPT replay",
        "numbers running and pending each half second",
        "give the detail_log of the same replay",
        columns("num_running", "num_pending", "generation_throughput"),
    ),
    Aggregate(
        "GPU samples of a BurstGPT replay",
        "memory, utilization and temperature each half second",
        "give the detail_log of the same replay",
        keys("monitor_id", "GPU_total_mem"),
    ),
    Aggregate(
        "durations of Azure Functions",
        "percentiles of each function's day, no call",
        "give the invocations of the same day, or the folder that holds both",
        columns("HashFunction", "Average", "Count", "percentile_Average_50"),
    ),
    Aggregate(
        "memory of Azure Functions",
        "percentiles of each app's memory, no call",
        "give the invocations of the same day",
        columns("HashApp", "SampleCount", "AverageAllocatedMb"),
    ),
    Aggregate(
        "length histograms of a ServeGen client",
        "token lengths by six hours, no arrival",
        "give chunk-N-trace.csv, which is read together with them, or the folder",
        length_histograms,
    ),
    Aggregate(
        "metrics in Prometheus' text format",
        "counters, gauges and histograms of all requests together",
        REQUESTS,
        lines(
            f"{COMMENT}|{METRICS}", "it has lines of # HELP, # TYPE or a metric's name and value"
        ),
    ),
    Aggregate(
        "answer of Prometheus",
        "samples of counters, gauges and histograms",
        REQUESTS,
        keys("status", "resultType", "result"),
    ),
    Aggregate(
        "engine log of vLLM",
        "mean throughput and numbers running and waiting each ten seconds",
        "give responses with --enable-per-request-metrics, or spans (--otlp-traces-endpoint)",
        lines("Avg prompt throughput: ", "its lines say Avg prompt throughput"),
    ),
    Aggregate(
        "data capture of SageMaker",
        "inputs and outputs with the second they came, no response time",
        "give the access log of what calls the endpoint",
        keys("captureData", "eventMetadata"),
    ),
    Aggregate(
        "metrics of CloudWatch",
        "statistics of each minute",
        "give the access log of what calls the endpoint",
        lambda sample: keys("MetricDataResults")(sample) or keys("Datapoints", "Label")(sample),
    ),
)


def recognized(sample: Sample) -> tuple[Aggregate, str] | None:
    """The format of a sample and what it was recognized by; None where it is none of these."""
    for aggregate in AGGREGATES:
        mark = aggregate.marked(sample)
        if mark is not None:
            return aggregate, mark
    return None


def looks_like(sample: Sample) -> str | None:
    """Why the sample holds no request, or None."""
    found = recognized(sample)
    return None if found is None else f"{found[0].title}: {found[1]}"


def read(intake: Intake) -> Found:
    """Never returns: ValueError with what the files hold and what to give instead."""
    for file in intake.files():
        found = recognized(Sample(file))
        if found is not None:
            title, holds, instead, _ = found[0]
            raise ValueError(
                f"{intake.shown_file(file)}: {title}: it holds {holds}; "
                f"that can calibrate nothing: {instead}"
            )
    raise ValueError(f"{intake.shown}: none of the aggregates that are known; set another kind")


READER = Reader(title="aggregates, which are refused", looks_like=looks_like, read=read)
