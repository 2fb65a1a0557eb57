-- Nexus profile: rows of the section `Forward latency`, microseconds as they are.
WITH parsed AS (
    SELECT line, unnest(from_json(
        TRY_CAST(raw AS JSON), '{"model": "VARCHAR", "gpu": "VARCHAR", "cells": ["VARCHAR"]}'
    ))
    FROM records
),
typed AS (
    SELECT
        line,
        model,
        gpu,
        len(cells) = 4 AS whole_row,
        whole_text(cells[1]) AS batch_size,
        finite_text(cells[2]) AS latency_us,
        finite_text(cells[3]) AS deviation_us
    FROM parsed
)
SELECT
    line,
    model AS request_class,
    gpu AS replica,
    batch_size,
    latency_us,
    deviation_us,
    NULL::BIGINT AS batches,
    NULL::DOUBLE AS queue_us,
    NULL::DOUBLE AS rate_rps,
    NULL::DOUBLE AS concurrency,
    CASE
        WHEN NOT whole_row THEN 'row: has not as many cells as the header'
        WHEN NOT coalesce(batch_size BETWEEN 1 AND 1000000, false)
            THEN 'batch: must be a whole number in 1 .. 1000000'
        WHEN NOT coalesce(latency_us > 0, false) THEN 'latency(us): must be above 0'
        WHEN NOT coalesce(deviation_us >= 0, false) THEN 'std(us): must be at least 0'
    END AS reason
FROM typed
