-- Runs of vLLM recorded by LLMServingSim, requests. Stages are seconds of the engine's monotonic
-- clock; 0 is what vLLM leaves in a stage that was never reached. arrival_time is on another clock.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"request_id": "JSON", "input_toks": "JSON", "output_toks": "JSON", "queued_ts": "JSON",
          "scheduled_ts": "JSON", "first_token_ts": "JSON", "last_token_ts": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        *,
        CASE WHEN finite(queued_ts) BETWEEN 0 AND 4102444800
            THEN round(finite(queued_ts) * 1e6)::BIGINT END AS queued_us,
        CASE WHEN finite(scheduled_ts) BETWEEN 0 AND 4102444800
            THEN round(finite(scheduled_ts) * 1e6)::BIGINT END AS scheduled_us,
        CASE WHEN finite(first_token_ts) BETWEEN 0 AND 4102444800
            THEN round(finite(first_token_ts) * 1e6)::BIGINT END AS first_us,
        CASE WHEN finite(last_token_ts) BETWEEN 0 AND 4102444800
            THEN round(finite(last_token_ts) * 1e6)::BIGINT END AS last_us
    FROM parsed
)
SELECT
    line,
    identifier(request_id) AS request_id,
    queued_us AS arrival_us,
    nullif(scheduled_us, 0) AS dispatch_us,
    nullif(first_us, 0) AS first_token_us,
    nullif(last_us, 0) AS departure_us,
    $model::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    whole(input_toks) AS prompt_tokens,
    whole(output_toks) AS output_tokens,
    CASE WHEN last_us = 0 THEN 'failed' ELSE 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('request_id', request_id, identifier(request_id) IS NOT NULL,
            'must be a whole number or a text'),
        required('queued_ts', queued_ts, queued_us > 0, 'must be seconds above 0'),
        required('scheduled_ts', scheduled_ts, scheduled_us IS NOT NULL,
            'must be seconds, at least 0'),
        required('first_token_ts', first_token_ts, first_us IS NOT NULL,
            'must be seconds, at least 0'),
        required('last_token_ts', last_token_ts, last_us IS NOT NULL,
            'must be seconds, at least 0'),
        CASE
            WHEN first_us > 0 AND scheduled_us = 0
                THEN 'scheduled_ts: 0 (never reached), though first_token_ts was'
            WHEN last_us > 0 AND first_us = 0
                THEN 'first_token_ts: 0 (never reached), though last_token_ts was'
        END,
        required('input_toks', input_toks, whole(input_toks) >= 0,
            'must be a whole number of at least 0'),
        required('output_toks', output_toks, whole(output_toks) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed JSON' END AS reason
FROM typed
