-- What every source's requests must keep. Instants are absolute, in microseconds.
SELECT
    * EXCLUDE (reason),
    coalesce(reason, CASE
        WHEN arrival_us IS NULL THEN 'arrival_us: missing'
        WHEN status IS NULL THEN 'status: missing'
        WHEN dispatch_us < arrival_us THEN 'dispatch_us: before arrival_us'
        WHEN first_token_us < arrival_us THEN 'first_token_us: before arrival_us'
        WHEN first_token_us < dispatch_us THEN 'first_token_us: before dispatch_us'
        WHEN departure_us < arrival_us THEN 'departure_us: before arrival_us'
        WHEN departure_us < dispatch_us THEN 'departure_us: before dispatch_us'
        WHEN departure_us < first_token_us THEN 'departure_us: before first_token_us'
        WHEN greatest(departure_us, dispatch_us, first_token_us) - arrival_us
            > getvariable('max_response_us')
            THEN 'departure_us: longer after arrival_us than ingest.max_response_s'
        WHEN prompt_tokens < 0 THEN 'prompt_tokens: must be at least 0'
        WHEN output_tokens < 0 THEN 'output_tokens: must be at least 0'
        WHEN size < 0 OR NOT isfinite(size) THEN 'size: must be finite and at least 0'
        WHEN arrival_us < getvariable('origin_us') - 3155760000000000 -- a century
            OR arrival_us > getvariable('origin_us') + 3155760000000000
            THEN 'arrival_us: a century from the first arrival'
    END) AS reason
FROM staged;
