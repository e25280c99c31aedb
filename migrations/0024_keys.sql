-- A key keeps its id when its secret is replaced, so that whoever knows the key by it (votes, grants, runs) goes on knowing it.
-- The secret before stays good until previous_until, so that those who use the key can change over.

SELECT lock_tables('ACCESS EXCLUSIVE', 'api_keys');
ALTER TABLE api_keys
    ADD COLUMN rotated_at timestamptz,
    ADD COLUMN previous_hash bytea CHECK (octet_length(previous_hash) = 32),
    ADD COLUMN previous_until timestamptz,
    ADD COLUMN previous_used_at timestamptz,
    ADD CONSTRAINT api_keys_previous CHECK (
        (previous_hash IS NULL) = (previous_until IS NULL) AND (previous_hash IS NOT NULL OR previous_used_at IS NULL)
    );
