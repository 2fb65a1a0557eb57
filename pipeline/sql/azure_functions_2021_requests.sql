-- Azure Functions 2021, requests: seconds to microseconds, arrival = end - duration. A call that
-- began before the trace did is rejected: the others of its time are not in the trace.
WITH typed AS (
    SELECT
        line,
        malformed,
        app,
        func,
        finite_text(end_timestamp) AS end_s,
        finite_text(duration) AS duration_s
    FROM records
),
checked AS (
    SELECT *, CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN app IS NULL THEN 'app: missing'
        WHEN func IS NULL THEN 'func: missing'
        WHEN NOT coalesce(end_s BETWEEN 0 AND 3e11, false)
            THEN 'end_timestamp: must be seconds of at least 0'
        WHEN NOT coalesce(duration_s BETWEEN 0 AND 3e11, false)
            THEN 'duration: must be seconds of at least 0'
        WHEN duration_s > end_s THEN 'duration: the call began before the trace'
    END AS reason
    FROM typed
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    CASE WHEN reason IS NULL THEN round(end_s * 1e6)::BIGINT - round(duration_s * 1e6)::BIGINT END
        AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN reason IS NULL THEN round(end_s * 1e6)::BIGINT END AS departure_us,
    CASE WHEN $by_app THEN 'a' || left(md5(app), 12)
        ELSE 'f' || left(md5(app || '/' || func), 12) END AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    reason
FROM checked
