"""The profiles of Nexus."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import FIXTURES, needs_traces, rejects, source, values

KIND = "nexus_profile"
PATH = "nexus_profile/made_up_net.txt"
COLUMNS = ("line", "request_class", "replica", "batch_size", "latency_us", "deviation_us")


def test_the_forward_section_alone_is_read_with_the_lines_of_the_file(ingest, tmp_path):
    ingested = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path)
    names = ("made_up:net:1", "Made_GPU_(X)")
    assert values(ingested.tables["profiles"], *COLUMNS) == [
        (5, *names, 1, 3000.5, 12.4),
        (6, *names, 2, 2900.0, 13.0),  # latency is not monotone in the batch size
    ]
    assert rejects(ingested) == [
        (7, "latency(us): must be above 0"),
        (8, "batch: must be a whole number in 1 .. 1000000"),
        (9, "row: has not as many cells as the header"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("net\nGPU\nForward latency\nbatch,latency(ms),std(ms),memory(B)\n1,3,1,1\n", "units are"),
        ("net\nGPU\nPreprocess latency\nmean(us),std(us)\n1,2\n", "must be a model id, a GPU and"),
        ("", "must be a model id, a GPU and"),
    ],
)
def test_another_unit_or_text_is_refused(text, message, ingest, tmp_path):
    (tmp_path / "net.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        ingest(tmp_path, "net.txt", kind=KIND)


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
@pytest.mark.parametrize(("name", "most"), [("caffe_vgg_s_1", 512), ("darknet_yolo9000_1", 24)])
def test_real_profiles_have_every_batch_size_once(name, most, ingest, tmp_path):
    path = f"nexus-profiles/TITAN_X_Pascal/{name}.txt"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    assert ingested.tables["profiles"]["batch_size"].to_list() == list(range(1, most + 1))
    assert source(ingested)["rows_rejected"] == 0
