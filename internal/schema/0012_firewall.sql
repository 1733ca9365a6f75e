-- +goose Up
-- Whether a port forward may take ports that the gateway itself is managed by.
ALTER TABLE firewall_nat_rules ADD COLUMN takes_management_ports boolean NOT NULL DEFAULT false;

-- Counts are kept for NAT rules too, so the row belongs to either kind. What the kernel's table had counted when a row was last
-- written is kept beside it: whoever reads that table next goes on from there.
ALTER TABLE firewall_rule_hits
    DROP CONSTRAINT firewall_rule_hits_rule_id_fkey,
    ADD COLUMN seen_table   text NOT NULL DEFAULT '',
    ADD COLUMN seen_packets bigint NOT NULL DEFAULT 0,
    ADD COLUMN seen_bytes   bigint NOT NULL DEFAULT 0;
