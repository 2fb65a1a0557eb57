-- LiteLLM, requests: StandardLoggingPayload (times as Unix seconds) and SpendLogs (times as texts
-- in $zone, metadata as a text, cache_hit as a text). The status of old SpendLogs is in metadata.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"id": "JSON", "request_id": "JSON", "litellm_call_id": "JSON", "startTime": "JSON",
          "endTime": "JSON", "completionStartTime": "JSON", "stream": "JSON", "status": "JSON",
          "model": "JSON", "model_group": "JSON", "model_id": "JSON", "api_base": "JSON",
          "cache_hit": "JSON", "prompt_tokens": "JSON", "completion_tokens": "JSON",
          "error_information": {"error_code": "JSON"}, "metadata": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
opened AS (
    SELECT * REPLACE (from_json(
        CASE WHEN json_type(metadata) = 'VARCHAR' THEN TRY_CAST(text_of(metadata) AS JSON)
            ELSE metadata END,
        '{"status": "JSON", "error_information": {"error_code": "JSON"},
          "kubernetes_pod_routing": {"pod_ip": "JSON"}}'
    ) AS metadata)
    FROM parsed
),
typed AS (
    SELECT
        *,
        CASE
            WHEN json_type(startTime) = 'VARCHAR' THEN instant_us(text_of(startTime), $zone)
            WHEN finite(startTime) BETWEEN 946684800 AND 4102444800
                THEN round(finite(startTime) * 1e6)::BIGINT
        END AS start_us,
        CASE
            WHEN json_type(endTime) = 'VARCHAR' THEN instant_us(text_of(endTime), $zone)
            WHEN finite(endTime) BETWEEN 946684800 AND 4102444800
                THEN round(finite(endTime) * 1e6)::BIGINT
        END AS end_us,
        CASE
            WHEN json_type(completionStartTime) = 'VARCHAR'
                THEN instant_us(text_of(completionStartTime), $zone)
            WHEN finite(completionStartTime) BETWEEN 946684800 AND 4102444800
                THEN round(finite(completionStartTime) * 1e6)::BIGINT
        END AS first_us,
        coalesce(text_of(status), text_of(metadata.status)) AS outcome,
        coalesce(identifier(error_information.error_code),
            identifier(metadata.error_information.error_code)) AS error_code,
        CASE json_type(cache_hit)
            WHEN 'BOOLEAN' THEN cache_hit::BOOLEAN
            WHEN 'VARCHAR' THEN CASE lower(text_of(cache_hit))
                WHEN 'true' THEN true
                WHEN 'false' THEN false
                WHEN 'none' THEN false
                WHEN '' THEN false
            END
        END AS cached,
        nullif(text_of(metadata.kubernetes_pod_routing.pod_ip), '') AS pod_ip_text,
        nullif(text_of(api_base), '') AS api_base_text,
        nullif(text_of(model_id), '') AS model_id_text
    FROM opened
)
SELECT
    line,
    coalesce(identifier(id), identifier(request_id), identifier(litellm_call_id)) AS request_id,
    start_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    -- without streaming LiteLLM repeats the end here
    CASE WHEN outcome = 'success' AND (json_type(stream) = 'BOOLEAN' AND stream::BOOLEAN
            OR stream IS NULL AND first_us <> end_us)
        THEN first_us END AS first_token_us,
    CASE WHEN NOT (outcome = 'failure' AND end_us = start_us) THEN end_us END AS departure_us,
    coalesce(nullif(text_of(model_group), ''), nullif(text_of(model), '')) AS request_class,
    CASE WHEN cached THEN 'cache' ELSE CASE $replica
        WHEN 'pod_ip' THEN pod_ip_text
        WHEN 'api_base' THEN api_base_text
        WHEN 'model_id' THEN model_id_text
        ELSE coalesce(pod_ip_text, api_base_text, model_id_text)
    END END AS replica,
    NULL::DOUBLE AS size,
    -- a failure has no usage: its 0 prompt tokens are not a measurement
    CASE WHEN NOT (outcome = 'failure' AND whole(prompt_tokens) = 0)
        THEN whole(prompt_tokens) END AS prompt_tokens,
    whole(completion_tokens) AS output_tokens,
    CASE
        WHEN outcome = 'success' THEN 'completed'
        WHEN error_code = '429' THEN 'shed'
        ELSE 'failed'
    END AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        CASE WHEN coalesce(id, request_id, litellm_call_id) IS NULL THEN 'id: missing' END,
        CASE WHEN outcome IS NULL THEN 'status: missing'
            WHEN outcome NOT IN ('success', 'failure') THEN 'status: must be success or failure'
        END,
        required('startTime', startTime, start_us IS NOT NULL,
            'must be Unix seconds after the year 2000, or a date and time'),
        required('endTime', endTime, end_us IS NOT NULL,
            'must be Unix seconds after the year 2000, or a date and time'),
        optional('completionStartTime', completionStartTime, first_us IS NOT NULL,
            'must be Unix seconds after the year 2000, or a date and time'),
        CASE WHEN end_us < start_us THEN 'endTime: before startTime' END,
        optional('cache_hit', cache_hit, cached IS NOT NULL, 'must be true, false or null'),
        optional('prompt_tokens', prompt_tokens, whole(prompt_tokens) >= 0,
            'must be a whole number of at least 0'),
        optional('completion_tokens', completion_tokens, whole(completion_tokens) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed JSON' END AS reason
FROM typed
