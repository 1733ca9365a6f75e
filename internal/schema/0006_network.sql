-- +goose Up
CREATE TABLE network_interfaces (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT network_interfaces_name_key UNIQUE,
    type        text NOT NULL CONSTRAINT network_interfaces_type_check CHECK (type IN ('ethernet', 'vlan', 'bond', 'bridge', 'wireguard')),
    role        text NOT NULL CONSTRAINT network_interfaces_role_fkey REFERENCES firewall_zones (name) ON UPDATE CASCADE,
    parent      text NOT NULL,
    vlan_id     integer CONSTRAINT network_interfaces_vlan_id_check CHECK (vlan_id BETWEEN 1 AND 4094),
    members     text[] NOT NULL, -- names of interfaces
    mtu         integer,
    bond_mode   text,
    description text NOT NULL,
    active      boolean NOT NULL
);

CREATE TABLE network_addresses (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    interface_id uuid NOT NULL CONSTRAINT network_addresses_interface_id_fkey REFERENCES network_interfaces,
    address      text NOT NULL,
    prefix       integer NOT NULL,
    is_vip       boolean NOT NULL,
    vip_priority integer NOT NULL,
    description  text NOT NULL
);

-- Addresses are unique; link-local ones are unique per interface.
CREATE UNIQUE INDEX network_addresses_address_key ON network_addresses
    (address, (CASE WHEN address::inet <<= inet 'fe80::/10' THEN interface_id END)) NULLS NOT DISTINCT;

CREATE TABLE network_routes (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    destination text NOT NULL,
    gateway     text NOT NULL,
    dev         text NOT NULL,
    metric      bigint NOT NULL,
    table_name  text NOT NULL,
    active      boolean NOT NULL,
    comment     text NOT NULL
);
