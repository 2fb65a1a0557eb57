-- AIBrix client log, requests: Unix seconds to microseconds, first token = launch_time + ttft.
WITH typed AS (
    SELECT
        line,
        malformed,
        seconds_us(launch_time) AS arrival_us,
        seconds_us(ttft) AS ttft_us,
        seconds_us(finish_time) AS departure_us,
        whole_text(prompt_tokens) AS prompt_tokens,
        whole_text(generation_tokens) AS output_tokens
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_id, -- user_id and question_id come again in the log of another run
    arrival_us,
    NULL::BIGINT AS dispatch_us,
    arrival_us + ttft_us AS first_token_us,
    departure_us,
    NULL::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    prompt_tokens,
    output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN arrival_us IS NULL OR arrival_us < 0 THEN 'launch_time: must be Unix seconds'
        WHEN departure_us IS NULL OR departure_us < 0 THEN 'finish_time: must be Unix seconds'
        WHEN departure_us < arrival_us THEN 'finish_time: before launch_time'
        WHEN ttft_us IS NULL OR ttft_us < 0 THEN 'ttft: must be seconds of at least 0'
        WHEN prompt_tokens IS NULL OR prompt_tokens < 0
            THEN 'prompt_tokens: must be a whole number of at least 0'
        WHEN output_tokens IS NULL OR output_tokens < 0
            THEN 'generation_tokens: must be a whole number of at least 0'
    END AS reason
FROM typed
