-- The lines of a block of text, numbered from $line; blank ones are no records.
INSERT INTO records
SELECT $line + position - 1, rtrim(text, chr(13))
FROM unnest(string_split($text, chr(10))) WITH ORDINALITY AS lines(text, position)
WHERE trim(text, ' ' || chr(9) || chr(13)) <> '';
