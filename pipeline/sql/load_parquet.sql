-- The rows of a Parquet file in their order, numbered from 1, each as a JSON object.
CREATE OR REPLACE TEMP VIEW records AS
WITH row AS (FROM read_parquet($path))
SELECT row_number() OVER () AS line, to_json(row)::VARCHAR AS raw
FROM row;
