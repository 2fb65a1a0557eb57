-- The cells of separated values by name.
CREATE OR REPLACE TEMP VIEW records AS
SELECT
    line,
    raw,
    len(cells) <> $cells AS malformed$columns
FROM (SELECT line, raw, $split AS cells FROM lines WHERE line >= $first_line);
