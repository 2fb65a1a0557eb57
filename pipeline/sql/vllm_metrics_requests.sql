-- vLLM per-request metrics, requests. The response is the record, or its field `response`. Stages
-- are milliseconds, laid end to end: arrival, queue, schedule to first token, first to last token.
-- Arrival is the field $arrival (at $pointer) of the record, else of the response: Unix seconds, or
-- a text of an instant. A response that is an error is a request that failed; 429 and 503 are shed.
WITH opened AS (
    SELECT
        line,
        coalesce(json_type(record) = 'OBJECT', false) AS readable,
        CASE WHEN json_type(record, '$.response') = 'OBJECT' THEN json_extract(record, '$.response')
            ELSE record END AS response,
        CASE WHEN json_type(record, $pointer) <> 'NULL' THEN json_extract(record, $pointer)
            END AS outer_stamp
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
parsed AS (
    SELECT line, readable, response, outer_stamp, unnest(from_json(
        response,
        '{"id": "JSON", "object": "JSON", "model": "JSON", "code": "JSON",
          "usage": {"prompt_tokens": "JSON", "completion_tokens": "JSON"},
          "error": {"code": "JSON", "message": "JSON"},
          "metrics": {"queue_time_ms": "JSON", "time_to_first_token_ms": "JSON",
                      "generation_time_ms": "JSON"}}'
    ))
    FROM opened
),
named AS (
    SELECT
        line, readable, id, model,
        coalesce(outer_stamp, CASE WHEN json_type(response, $pointer) <> 'NULL'
            THEN json_extract(response, $pointer) END) AS stamp,
        usage.prompt_tokens AS prompt, usage.completion_tokens AS completion,
        error IS NOT NULL OR coalesce(text_of("object") = 'error', false) AS failed,
        coalesce(identifier(error.code), identifier(code)) IN ('429', '503') AS refused,
        metrics IS NULL AS lacks_metrics,
        metrics.queue_time_ms AS queue,
        metrics.time_to_first_token_ms AS first,
        metrics.generation_time_ms AS generation
    FROM parsed
),
typed AS (
    SELECT
        *,
        CASE
            WHEN json_type(stamp) = 'VARCHAR' THEN instant_us(text_of(stamp), $zone)
            WHEN finite(stamp) BETWEEN 946684800 AND 4102444800
                THEN round(finite(stamp) * 1e6)::BIGINT
        END AS stamp_us,
        CASE WHEN finite(queue) BETWEEN 0 AND 86400000 THEN finite(queue) END AS queue_ms,
        CASE WHEN finite(first) BETWEEN 0 AND 86400000 THEN finite(first) END AS first_ms,
        CASE WHEN finite(generation) BETWEEN 0 AND 86400000 THEN finite(generation) END
            AS generation_ms
    FROM named
)
SELECT
    line,
    identifier(id) AS request_id,
    stamp_us AS arrival_us,
    stamp_us + round(queue_ms * 1e3)::BIGINT AS dispatch_us,
    stamp_us + round((queue_ms + first_ms) * 1e3)::BIGINT AS first_token_us,
    stamp_us + round((queue_ms + first_ms + generation_ms) * 1e3)::BIGINT AS departure_us,
    text_of(model) AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    whole(prompt) AS prompt_tokens,
    whole(completion) AS output_tokens,
    CASE WHEN failed AND coalesce(refused, false) THEN 'shed'
        WHEN failed THEN 'failed' ELSE 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required($arrival, stamp, stamp_us IS NOT NULL,
            'must be Unix seconds after the year 2000, or a date and time'),
        CASE WHEN NOT failed THEN coalesce(
            required('id', id, identifier(id) IS NOT NULL, 'must be a text'),
            CASE WHEN lacks_metrics THEN 'metrics: missing' END,
            required('queue_time_ms', queue, queue_ms IS NOT NULL, 'must be from 0 to 86400000'),
            required('time_to_first_token_ms', first, first_ms IS NOT NULL,
                'must be from 0 to 86400000'),
            required('generation_time_ms', generation, generation_ms IS NOT NULL,
                'must be from 0 to 86400000')
        ) END,
        optional('prompt_tokens', prompt, whole(prompt) >= 0,
            'must be a whole number of at least 0'),
        optional('completion_tokens', completion, whole(completion) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed JSON' END AS reason
FROM typed
