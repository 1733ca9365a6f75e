-- +goose Up
CREATE TABLE ntp_settings (
    id               uuid PRIMARY KEY,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    listen_addresses text[] NOT NULL,
    allow_acl        text[] NOT NULL,
    serve_clients    boolean NOT NULL,
    makestep         text NOT NULL,
    rtcsync          boolean NOT NULL
);

CREATE UNIQUE INDEX ntp_settings_one ON ntp_settings ((true));

INSERT INTO ntp_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), '{}', '{}', false, '1.0 3', true);

CREATE TABLE ntp_pools (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    kind       text NOT NULL CONSTRAINT ntp_pools_kind_check CHECK (kind IN ('pool', 'server')),
    address    text NOT NULL CONSTRAINT ntp_pools_address_key UNIQUE,
    iburst     boolean NOT NULL,
    prefer     boolean NOT NULL,
    minpoll    integer NOT NULL,
    maxpoll    integer NOT NULL
);

INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll)
SELECT gen_random_uuid(), now(), now(), 'pool', n || '.debian.pool.ntp.org', true, false, 6, 10
FROM generate_series(0, 3) n;
