-- The lines of a clean text file in their order.
CREATE OR REPLACE TEMP TABLE text_lines AS
SELECT raw
FROM read_csv(
    $path,
    columns = {'raw': 'VARCHAR'},
    auto_detect = false,
    header = false,
    delim = chr(1), -- no clean file holds it
    quote = '',
    escape = '',
    comment = '',
    strict_mode = false,
    max_line_size = $line_bytes,
    buffer_size = 33554432
);
