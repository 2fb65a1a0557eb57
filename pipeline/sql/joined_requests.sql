-- Joined requests: rows that pipeline/sources/join.py made, typed already, on the gateway's clock.
SELECT line, unnest(row), row.fault AS reason
FROM (
    SELECT line, from_json(
        raw::JSON,
        '{"request_id": "VARCHAR", "arrival_us": "BIGINT", "dispatch_us": "BIGINT",
          "first_token_us": "BIGINT", "departure_us": "BIGINT", "request_class": "VARCHAR",
          "replica": "VARCHAR", "size": "DOUBLE", "prompt_tokens": "BIGINT",
          "output_tokens": "BIGINT", "status": "VARCHAR", "batch_id": "BIGINT",
          "fault": "VARCHAR"}'
    ) AS row
    FROM records
)
