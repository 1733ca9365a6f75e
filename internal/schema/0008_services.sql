-- +goose Up
CREATE TABLE dns_settings (
    id                 uuid PRIMARY KEY,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    upstream_forwards  text[] NOT NULL,
    access_acl         text[] NOT NULL,
    listen_addresses   text[] NOT NULL,
    cache_min_ttl      integer NOT NULL,
    cache_max_ttl      integer NOT NULL,
    dnssec_validation  boolean NOT NULL,
    qname_minimisation boolean NOT NULL
);

CREATE UNIQUE INDEX dns_settings_one ON dns_settings ((true));

INSERT INTO dns_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), '{9.9.9.9,1.1.1.1}',
    '{127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7,fe80::/10}', '{127.0.0.1,::1}', 0, 86400, true, true);

CREATE TABLE dns_zones (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT dns_zones_name_key UNIQUE,
    forward_to  text[] NOT NULL,
    description text NOT NULL,
    active      boolean NOT NULL
);

CREATE TABLE dns_records (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    zone_id    uuid NOT NULL CONSTRAINT dns_records_zone_id_fkey REFERENCES dns_zones ON DELETE CASCADE,
    name       text NOT NULL,
    type       text NOT NULL CONSTRAINT dns_records_type_check CHECK (type IN ('A', 'AAAA', 'CNAME', 'TXT', 'MX', 'SRV', 'NS', 'PTR', 'CAA')),
    value      text NOT NULL,
    ttl        integer NOT NULL,
    priority   integer,
    weight     integer,
    port       integer
);

CREATE INDEX dns_records_name ON dns_records (zone_id, name);
CREATE INDEX dns_records_whole_name ON dns_records (name) WHERE name LIKE '%.';
CREATE INDEX dns_records_alias ON dns_records (value) WHERE type = 'CNAME';

CREATE TABLE fwdproxy_settings (
    id               uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    enabled          boolean NOT NULL,
    listen_addresses text[] NOT NULL,
    port             integer NOT NULL,
    cache_mb         integer NOT NULL,
    allowed_networks text[] NOT NULL
);

CREATE UNIQUE INDEX fwdproxy_settings_one ON fwdproxy_settings ((true));

INSERT INTO fwdproxy_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), false, '{}', 3128, 256,
    '{10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7}');

CREATE TABLE fwdproxy_acls (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    name       text NOT NULL CONSTRAINT fwdproxy_acls_name_key UNIQUE,
    type       text NOT NULL CONSTRAINT fwdproxy_acls_type_check CHECK (type IN ('src', 'dst', 'dstdomain', 'dstdom_regex', 'url_regex', 'port', 'method', 'time')),
    value      text NOT NULL,
    action     text NOT NULL CONSTRAINT fwdproxy_acls_action_check CHECK (action IN ('allow', 'deny')),
    priority   bigint NOT NULL,
    active     boolean NOT NULL
);

CREATE TABLE dhcp_settings (
    id                    uuid PRIMARY KEY,
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL,
    enabled               boolean NOT NULL,
    default_lease_seconds integer NOT NULL,
    max_lease_seconds     integer NOT NULL
);

CREATE UNIQUE INDEX dhcp_settings_one ON dhcp_settings ((true));

INSERT INTO dhcp_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), false, 3600, 86400);

CREATE TABLE dhcp_subnets (
    id            uuid PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    interface     text NOT NULL,
    cidr          text NOT NULL CONSTRAINT dhcp_subnets_cidr_key UNIQUE,
    range_start   text NOT NULL,
    range_end     text NOT NULL,
    gateway       text NOT NULL,
    dns_servers   text[] NOT NULL,
    ntp_servers   text[] NOT NULL,
    domain_name   text NOT NULL,
    lease_seconds integer,
    active        boolean NOT NULL
);

CREATE TABLE dhcp_reservations (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    subnet_id  uuid NOT NULL CONSTRAINT dhcp_reservations_subnet_id_fkey REFERENCES dhcp_subnets ON DELETE CASCADE,
    mac        text NOT NULL,
    ip         text NOT NULL,
    hostname   text NOT NULL,
    CONSTRAINT dhcp_reservations_mac_key UNIQUE (subnet_id, mac),
    CONSTRAINT dhcp_reservations_ip_key UNIQUE (subnet_id, ip)
);

CREATE TABLE radius_settings (
    id               uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    enabled          boolean NOT NULL,
    auth_port        integer NOT NULL,
    acct_port        integer NOT NULL,
    listen_addresses text[] NOT NULL
);

CREATE UNIQUE INDEX radius_settings_one ON radius_settings ((true));

INSERT INTO radius_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), false, 1812, 1813, '{}');

CREATE TABLE radius_clients (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    name       text NOT NULL CONSTRAINT radius_clients_name_key UNIQUE,
    address    text NOT NULL CONSTRAINT radius_clients_address_key UNIQUE,
    secret     bytea NOT NULL
);

CREATE TABLE radius_users (
    id               uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    name             text NOT NULL CONSTRAINT radius_users_name_key UNIQUE,
    password         bytea NOT NULL,
    active           boolean NOT NULL,
    reply_attributes jsonb
);
