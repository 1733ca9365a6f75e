-- +goose Up
-- Whether a port forward may use ports by which the gateway is managed.
ALTER TABLE firewall_nat_rules ADD COLUMN takes_management_ports boolean NOT NULL DEFAULT false;

-- NAT rules are counted, too, so rule_id may refer to either kind. seen_* are the kernel's counters when the row was last
-- written: the next read adds only what was counted since.
ALTER TABLE firewall_rule_hits
    DROP CONSTRAINT firewall_rule_hits_rule_id_fkey,
    ADD COLUMN seen_table   text NOT NULL DEFAULT '',
    ADD COLUMN seen_packets bigint NOT NULL DEFAULT 0,
    ADD COLUMN seen_bytes   bigint NOT NULL DEFAULT 0;
