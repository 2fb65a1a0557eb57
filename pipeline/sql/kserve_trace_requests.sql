-- KServe trace log, requests. The time of a line is the end; the stages are in ms, and follow each
-- other: arrival = end - (preprocess + explain + predict + postprocess).
WITH matched AS (
    SELECT line, regexp_extract(
        raw,
        '^(\S+ \S+) (\d+) kserve\.trace (?:\[?[A-Z]+\]? )?(?:\S+:\d+\] )?requestId: (.*?), '
        || 'preprocess_ms: (\S+), explain_ms: (\S+), predict_ms: (\S+), postprocess_ms: (\S+)$',
        ['stamp', 'process', 'request_id', 'preprocess', 'explain', 'predict', 'postprocess']
    ) AS cells
    FROM records
),
typed AS (
    SELECT
        line,
        cells.*,
        instant_us(cells.stamp, $zone) AS end_us,
        list_transform(
            [cells.preprocess, cells.explain, cells.predict, cells.postprocess],
            lambda cell: CASE
                WHEN regexp_full_match(cell, '\d{1,9}(\.\d+)?(e-\d{1,2})?')
                    THEN TRY_CAST(cell AS DOUBLE)
            END
        ) AS stages_ms
    FROM matched
),
summed AS (
    SELECT *, CASE WHEN len(list_filter(stages_ms, lambda ms: ms IS NULL)) = 0
        THEN round(list_sum(stages_ms) * 1000)::BIGINT END AS response_us
    FROM typed
)
SELECT
    line,
    CASE WHEN request_id NOT IN ('', 'N.A.') THEN request_id END AS request_id,
    end_us - response_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    end_us AS departure_us,
    NULL::VARCHAR AS request_class,
    process AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN stamp = '' THEN 'not a request: not a line of kserve.trace' ELSE coalesce(
        required('time', stamp, end_us IS NOT NULL, 'must be a date and time'),
        required('predict_ms', predict, stages_ms[3] IS NOT NULL, 'must be milliseconds'),
        required('preprocess_ms', preprocess, stages_ms[1] IS NOT NULL, 'must be milliseconds'),
        required('explain_ms', explain, stages_ms[2] IS NOT NULL, 'must be milliseconds'),
        required('postprocess_ms', postprocess, stages_ms[4] IS NOT NULL, 'must be milliseconds')
    ) END AS reason
FROM summed
