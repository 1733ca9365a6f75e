-- +goose Up
-- The virtual address of a cluster, and this node's interface for it. Each node has its own settings, because interfaces differ.

CREATE TABLE vrrp_settings (
    id             uuid PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    vip_address    text NOT NULL,
    vip_interface  text NOT NULL,
    vrrp_router_id integer NOT NULL CONSTRAINT vrrp_settings_vrrp_router_id_check CHECK (vrrp_router_id BETWEEN 1 AND 255)
);

CREATE UNIQUE INDEX vrrp_settings_one ON vrrp_settings ((true));

INSERT INTO vrrp_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), '', '', 51);
