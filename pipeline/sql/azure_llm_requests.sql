-- Azure LLM trace, requests: arrivals and tokens. A timestamp has up to 9 fraction digits or none,
-- and Z, an offset, or neither: then it is in $zone. It is rounded to the nearest microsecond,
-- halves up, as an absolute instant, so that differences are off by less than 1 us. The origin is
-- the first valid instant. A row of the trace is a request that was answered.
CREATE OR REPLACE TEMP TABLE staged AS
WITH split AS (
    SELECT line, list_transform(string_split(raw, ','), lambda cell: trim(cell, ' "')) AS cells
    FROM records
),
matched AS (
    SELECT
        line,
        len(cells) = $cells AS whole_row,
        regexp_extract(
            cells[$timestamp_cell],
            '^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?$',
            ['date', 'clock', 'fraction', 'offset']
        ) AS stamp,
        cells[$prompt_cell] AS prompt_cell,
        cells[$output_cell] AS output_cell
    FROM split
),
seconds AS (
    SELECT
        *,
        TRY_CAST(stamp.date || ' ' || stamp.clock AS TIMESTAMP) AS local_time,
        TRY_CAST(rpad(stamp.fraction, 9, '0') AS BIGINT) AS fraction_ns,
        replace(stamp.offset, ':', '') AS offset_text
    FROM matched
),
instants AS (
    SELECT
        *,
        coalesce(fraction_ns, 0) AS below_second_ns,
        CASE
            WHEN local_time IS NULL THEN NULL
            WHEN offset_text = '' THEN epoch_us(timezone($zone, local_time))
            WHEN offset_text = 'Z' THEN epoch_us(local_time)
            ELSE epoch_us(local_time)
                - (CASE WHEN offset_text[1] = '-' THEN -1 ELSE 1 END) * 60000000
                * (TRY_CAST(offset_text[2:3] AS BIGINT) * 60 + TRY_CAST(offset_text[4:5] AS BIGINT))
        END AS second_us
    FROM seconds
),
typed AS (
    SELECT
        line,
        second_us + (below_second_ns + 500) // 1000 AS instant_us,
        CASE WHEN regexp_full_match(prompt_cell, '\d{1,18}') THEN prompt_cell::BIGINT END
            AS prompt_tokens,
        CASE WHEN regexp_full_match(output_cell, '\d{1,18}') THEN output_cell::BIGINT END
            AS output_tokens,
        CASE
            WHEN NOT whole_row THEN 'row: has not as many cells as the header'
            WHEN second_us IS NULL THEN 'TIMESTAMP: not a date and time'
        END AS fault
    FROM instants
),
checked AS (
    SELECT * REPLACE (coalesce(fault, CASE
        WHEN prompt_tokens IS NULL THEN 'ContextTokens: must be a whole number of at least 0'
        WHEN output_tokens IS NULL THEN 'GeneratedTokens: must be a whole number of at least 0'
    END) AS fault)
    FROM typed
),
ordered AS (
    SELECT
        * EXCLUDE (fault),
        coalesce(fault, CASE
            WHEN instant_us < max(instant_us) FILTER (WHERE fault IS NULL) OVER (
                ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) THEN 'TIMESTAMP: below one before it'
        END) AS reason
    FROM checked
),
based AS (
    SELECT *, min(instant_us) FILTER (WHERE reason IS NULL) OVER () AS origin_us
    FROM ordered
)
SELECT
    line,
    line::VARCHAR AS request_id, -- the trace has no other
    instant_us - origin_us AS arrival_us,
    $request_class::VARCHAR AS request_class,
    NULL::DOUBLE AS size,
    prompt_tokens,
    output_tokens,
    'completed' AS status,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS departure_us,
    NULL::BIGINT AS batch_id,
    'absent' AS queue_origin,
    'absent' AS service_origin,
    origin_us,
    reason
FROM based
ORDER BY line;
