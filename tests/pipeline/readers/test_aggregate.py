"""Files without requests: each is recognized as what it is, by no other reader, and refused.

The samples were written for this test after the documentation of the formats.
"""

import pytest

from pipeline.sources.detect import fits
from pipeline.sources.readers.aggregate import AGGREGATES
from pipeline.sources.sample import Sample

SAMPLES = {
    "report of Triton's Model Analyzer": (
        "metrics-model-inference.csv",
        "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,"
        "Satisfies Constraints,Throughput (infer/sec),p99 Latency (ms)\n"
        '"resnet,vgg","1,1","4,4","a,b","2:GPU,1:GPU","1,2",Yes,"421.0, [184.5,236.5]",20.7\n',
    ),
    "GPU report of Triton's Model Analyzer": (
        "metrics-model-gpu.csv",
        "Model,GPU UUID,Batch,Request Rate,Model Config Path,Instance Group,"
        "Satisfies Constraints,GPU Memory Usage (MB),GPU Utilization (%),GPU Power Usage (W)\n"
        "resnet,GPU-0,1,32,resnet_config_5,3:GPU,Yes,876.6,0.0,57.1\n",
    ),
    "measured runs of aiconfigurator": (
        "silicon_sample.csv",
        "id,backend,isl,osl,batch_size,silicon_ttft_ms,silicon_tpot_ms\na,vllm,1024,128,8,91.5,11\n",
    ),
    "summary of inference-perf": (
        "stage_0_lifecycle_metrics.json",
        '{"load_summary": {"count": 60}, "successes": {"count": 60, "latency": {"p99": 1.5}}}\n',
    ),
    "result of vLLM's benchmark": (
        "bench.json",
        '{"backend": "vllm", "completed": 500, "request_throughput": 3.2, "mean_ttft_ms": 91.0}\n',
    ),
    "summary of an MLPerf run": (
        "mlperf_log_summary.txt",
        "================================================\nMLPerf Results Summary\n"
        "================================================\nSUT name : vllm\n",
    ),
    "statistics of Locust": (
        "run_stats.csv",
        "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time\n"
        "POST,/v1/completions,900,2,110,140.5\n",
    ),
    "coefficients of DistServe": (
        "profiler.json",
        '{\n "opt-13b": {"1": {"prefill": [18.1, 0.1, 7e-6],\n  "decoding_smallbs": [19.9, 0, 0],'
        ' "decoding_largebs": [7.1, 0, 0.1]}}\n}\n',
    ),
    "memory table of DistServe": (
        "max_num_tokens.csv",
        "model,tp,pp,max_num_tokens\nopt-13b,1,1,66144\n",
    ),
    "operator profile of Vidur": (
        "mlp.csv",
        "time_stats.emb.min,time_stats.emb.mean,num_tokens,num_tensor_parallel_workers\n"
        "0.01,0.02,512,1\n",
    ),
    "layer profile of LLMServingSim": ("dense.csv", "layer,tokens,time_us\nact_fn,1,2.5\n"),
    "layer profile of LLMServingSim (sequences)": (
        "per_sequence.csv",
        "layer,sequences,time_us\nlm_head,1,1096.9\n",
    ),
    "attention profile of LLMServingSim": (
        "attention.csv",
        "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,9.3\n",
    ),
    "time series of LLMServingSim's vLLM runs": (
        "timeseries.csv",
        "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\r\n1.0,339.0,2.0,5,2,0\r\n",
    ),
    "description of LLMServingSim's vLLM runs": (
        "meta.json",
        '{\n  "vllm_version": "0.19.0",\n  "engine_kwargs": {"max_num_seqs": 8}\n}\n',
    ),
    "engine samples of a BurstGPT replay": (
        "vllm_log.csv",
        "timestamp,prompt_throughput,generation_throughput,num_running,num_swapped,num_pending\n"
        "14592657.8,3.9,3.4,0,0,0\n",
    ),
    "GPU samples of a BurstGPT replay": (
        "gpu_log.json",
        '{"0": {"monitor_id": 0, "record_time": 145.2, "GPU_used_mem": 1, "GPU_total_mem": 2}}\n',
    ),
    "durations of Azure Functions": (
        "function_durations_percentiles.anon.d01.csv",
        "HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum,percentile_Average_50\n"
        "a,b,c,100,5,99,101,100\n",
    ),
    "memory of Azure Functions": (
        "app_memory_percentiles.anon.d01.csv",
        "HashOwner,HashApp,SampleCount,AverageAllocatedMb,AverageAllocatedMb_pct1\na,b,9,120,100\n",
    ),
    "length histograms of a ServeGen client": (
        "chunk-3-dataset.json",
        '{\n  "0": {\n    "input_tokens": "{23: 0.5, 24: 0.5}"\n  }\n}\n',
    ),
    "metrics in Prometheus' text format": (
        "metrics.txt",
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n',
    ),
    "metrics in Prometheus' text format (vLLM, comments gone)": (
        "metrics.prom",
        'vllm:e2e_request_latency_seconds_bucket{le="0.3",model_name="m"} 12.0\n',
    ),
    "metrics in Prometheus' text format (Triton)": (
        "metrics",
        'nv_inference_exec_count{model="resnet",version="1"} 42\nnv_gpu_utilization 0.5\n',
    ),
    "metrics in Prometheus' text format (TGI)": (
        "metrics",
        'tgi_request_queue_duration_sum 1.5\ntgi_batch_current_size 3\ntgi_x{a="b"} NaN\n',
    ),
    "answer of Prometheus": (
        "range.json",
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[]}]}}\n',
    ),
    "engine log of vLLM": (
        "vllm.log",
        "INFO 11-30 12:00:01 [loggers.py:127] Engine 000: Avg prompt throughput: 3.9 tokens/s, Avg "
        "generation throughput: 3.4 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache "
        "usage: 0.1%, Prefix cache hit rate: 0.0%\n",
    ),
    "data capture of SageMaker": (
        "capture.jsonl",
        '{"captureData":{"endpointInput":{"mode":"INPUT","data":"1,2","encoding":"CSV"}},'
        '"eventMetadata":{"eventId":"a","inferenceTime":"2026-01-01T00:00:00Z"},'
        '"eventVersion":"0"}\n',
    ),
    "metrics of CloudWatch": (
        "latency.json",
        '{"Label": "ModelLatency", "Datapoints": [{"Timestamp": "2026-01-01", "p99": 9}]}\n',
    ),
    "metrics of CloudWatch (GetMetricData)": (
        "latency.json",
        '{"MetricDataResults": [{"Id": "m1", "Label": "ModelLatency", "Values": [9.0]}]}\n',
    ),
}


def test_there_is_a_sample_of_every_format():
    assert {title.partition(" (")[0] for title in SAMPLES} == {one.title for one in AGGREGATES}


@pytest.mark.parametrize("title", SAMPLES)
def test_it_is_known_as_what_it_is_and_by_no_other_reader(title, tmp_path):
    name, text = SAMPLES[title]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    found = fits(tmp_path / name)
    assert list(found) == ["aggregate"]
    assert found["aggregate"].startswith(f"{title.partition(' (')[0]}: ")


@pytest.mark.parametrize("title", SAMPLES)
def test_it_is_refused_with_what_it_holds_and_what_to_give(title, tmp_path, ingest):
    name, text = SAMPLES[title]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    known = next(one for one in AGGREGATES if one.marked(Sample(tmp_path / name)))
    with pytest.raises(ValueError, match="calibrate nothing") as refused:
        ingest(tmp_path, name, kind="auto")
    assert str(refused.value).startswith(
        f"{name}: {title.partition(' (')[0]}: it holds {known.holds}; "
    )
    assert str(refused.value).endswith(known.instead)
    assert not (tmp_path / "data" / "tables").exists()


def test_a_folder_of_them_is_refused_by_the_first(tmp_path, ingest):
    (tmp_path / "run").mkdir()
    for title in ("statistics of Locust", "memory table of DistServe"):
        name, text = SAMPLES[title]
        (tmp_path / "run" / name).write_text(text)
    with pytest.raises(ValueError, match=r"^run/max_num_tokens\.csv: memory table of DistServe"):
        ingest(tmp_path, "run", kind="auto")


def test_a_file_that_is_none_of_them_is_told_so(tmp_path, ingest):
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"log\.csv: none of the aggregates that are known"):
        ingest(tmp_path, "log.csv", kind="aggregate")
