-- +goose Up
-- The ids of the built-in pools have the same UUID version as all others, and are the same on every node.
UPDATE ntp_pools SET id = ('00000000-0000-7000-8000-00000000001' || left(address, 1))::uuid
WHERE address ~ '^[0-3]\.debian\.pool\.ntp\.org$' AND substr(id::text, 15, 1) = '4' AND updated_at = created_at;
