-- +goose Up
CREATE TABLE tunnel_interfaces (
    id                     uuid PRIMARY KEY,
    created_at             timestamptz NOT NULL,
    updated_at             timestamptz NOT NULL,
    name                   text NOT NULL CONSTRAINT tunnel_interfaces_name_key UNIQUE,
    mode                   text NOT NULL CONSTRAINT tunnel_interfaces_mode_check CHECK (mode IN ('server', 'client')),
    address_cidr           text NOT NULL,
    listen_port            integer NOT NULL,
    client_routes          text NOT NULL,
    dns                    text NOT NULL,
    mtu                    integer,
    endpoint_host          text NOT NULL,
    public_key             text NOT NULL CONSTRAINT tunnel_interfaces_private_key_key UNIQUE,
    private_key            bytea NOT NULL,
    upstream_public_key    text NOT NULL,
    upstream_endpoint      text NOT NULL,
    upstream_preshared_key bytea,
    upstream_allowed_ips   text NOT NULL,
    upstream_keepalive     integer NOT NULL,
    active                 boolean NOT NULL
);

-- Port 0 means any port.
CREATE UNIQUE INDEX tunnel_interfaces_listen_port_key ON tunnel_interfaces (listen_port) WHERE listen_port > 0;

CREATE TABLE tunnel_peers (
    id            uuid PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    interface_id  uuid NOT NULL CONSTRAINT tunnel_peers_interface_id_fkey REFERENCES tunnel_interfaces ON DELETE CASCADE,
    name          text NOT NULL,
    public_key    text NOT NULL,
    private_key   bytea,
    preshared_key bytea,
    allowed_ips   text NOT NULL,
    endpoint      text NOT NULL,
    keepalive     integer NOT NULL,
    active        boolean NOT NULL,
    CONSTRAINT tunnel_peers_public_key_key UNIQUE (interface_id, public_key)
);

-- Every change of a peer checks for networks that another peer already has. fastupdate is off because each check would also
-- scan the pending list.
CREATE INDEX tunnel_peers_allowed_ips ON tunnel_peers USING gin (string_to_array(allowed_ips, ',')) WITH (fastupdate = off);
