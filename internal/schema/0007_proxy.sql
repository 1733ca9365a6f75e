-- +goose Up
CREATE TABLE proxy_backends (
    id                            uuid PRIMARY KEY,
    created_at                    timestamptz NOT NULL,
    updated_at                    timestamptz NOT NULL,
    name                          text NOT NULL CONSTRAINT proxy_backends_name_key UNIQUE,
    scheme                        text NOT NULL CONSTRAINT proxy_backends_scheme_check CHECK (scheme IN ('http', 'https')),
    lb_algorithm                  text NOT NULL CONSTRAINT proxy_backends_lb_algorithm_check CHECK (lb_algorithm IN ('roundrobin', 'leastconn', 'source')),
    websocket                     boolean NOT NULL,
    force_http1                   boolean NOT NULL,
    active                        boolean NOT NULL,
    health_check_enabled          boolean NOT NULL,
    health_check_path             text NOT NULL,
    health_check_method           text NOT NULL,
    health_check_host             text NOT NULL,
    health_check_expect           text NOT NULL,
    health_check_interval_seconds integer NOT NULL,
    verify_tls                    boolean NOT NULL
);

CREATE TABLE proxy_servers (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    backend_id uuid NOT NULL CONSTRAINT proxy_servers_backend_id_fkey REFERENCES proxy_backends ON DELETE CASCADE,
    name       text NOT NULL,
    address    text NOT NULL,
    port       integer NOT NULL,
    weight     integer NOT NULL,
    backup     boolean NOT NULL,
    active     boolean NOT NULL
);

-- Names within a backend must differ in HAProxy's configuration, too, where these characters become underscores.
CREATE UNIQUE INDEX proxy_servers_name_key ON proxy_servers (backend_id, (regexp_replace(name, '[\s.]', '_', 'g')));

CREATE TABLE certificate_dns_providers (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    name       text NOT NULL CONSTRAINT certificate_dns_providers_name_key UNIQUE,
    kind       text NOT NULL,
    zones      text[] NOT NULL,
    server     text NOT NULL,
    endpoint   text NOT NULL,
    username   text NOT NULL,
    algorithm  text NOT NULL,
    secret     bytea NOT NULL
);

CREATE TABLE certificate_certificates (
    id                 uuid PRIMARY KEY,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    domain_id          uuid,
    names              text[] NOT NULL,
    source             text NOT NULL CONSTRAINT certificate_certificates_source_check CHECK (source IN ('acme', 'uploaded', 'self-signed')),
    challenge          text NOT NULL CONSTRAINT certificate_certificates_challenge_check CHECK (challenge IN ('http-01', 'dns-01')),
    dns_provider_id    uuid CONSTRAINT certificate_certificates_dns_provider_id_fkey REFERENCES certificate_dns_providers,
    key_type           text NOT NULL CONSTRAINT certificate_certificates_key_type_check CHECK (key_type IN ('ecdsa-p256', 'rsa-2048')),
    automatic          boolean NOT NULL,
    certificate_pem    text NOT NULL,
    private_key_pem    bytea NOT NULL,
    not_before         timestamptz,
    expires_at         timestamptz,
    issuer             text NOT NULL,
    fingerprint_sha256 text NOT NULL,
    status             text NOT NULL CONSTRAINT certificate_certificates_status_check CHECK (status IN ('pending', 'valid', 'expiring', 'expired', 'error')),
    last_renewed_at    timestamptz,
    last_error         text NOT NULL,
    error_kind         text NOT NULL,
    attempts           integer NOT NULL,
    next_attempt_at    timestamptz,
    renew_at           timestamptz
);

CREATE TABLE proxy_domains (
    id                        uuid PRIMARY KEY,
    created_at                timestamptz NOT NULL,
    updated_at                timestamptz NOT NULL,
    name                      text NOT NULL CONSTRAINT proxy_domains_name_key UNIQUE,
    backend_id                uuid NOT NULL CONSTRAINT proxy_domains_backend_id_fkey REFERENCES proxy_backends,
    active                    boolean NOT NULL,
    http_to_https             boolean NOT NULL,
    disable_h3                boolean NOT NULL,
    hsts_enabled              boolean NOT NULL,
    hsts_max_age              bigint NOT NULL,
    hsts_include_subdomains   boolean NOT NULL,
    hsts_preload              boolean NOT NULL,
    rate_limit_enabled        boolean NOT NULL,
    rate_limit_requests       integer NOT NULL,
    rate_limit_period_seconds integer NOT NULL,
    maintenance               boolean NOT NULL,
    max_body_size_bytes       bigint NOT NULL,
    www_redirect              text NOT NULL CONSTRAINT proxy_domains_www_redirect_check CHECK (www_redirect IN ('none', 'to_www', 'to_apex')),
    notes                     text NOT NULL,
    certificate_id            uuid CONSTRAINT proxy_domains_certificate_id_fkey REFERENCES certificate_certificates
);

CREATE INDEX proxy_domains_backend_id ON proxy_domains (backend_id);

ALTER TABLE certificate_certificates ADD CONSTRAINT certificate_certificates_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES proxy_domains ON DELETE SET NULL;

CREATE INDEX certificate_certificates_domain_id ON certificate_certificates (domain_id);

CREATE TABLE proxy_domain_headers (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    domain_id  uuid NOT NULL CONSTRAINT proxy_domain_headers_domain_id_fkey REFERENCES proxy_domains ON DELETE CASCADE,
    name       text NOT NULL,
    value      text NOT NULL,
    operation  text NOT NULL CONSTRAINT proxy_domain_headers_operation_check CHECK (operation IN ('set', 'add', 'remove'))
);

-- A domain may add several headers of one name, but set or remove it only once.
CREATE UNIQUE INDEX proxy_domain_headers_name_key ON proxy_domain_headers (domain_id, lower(name)) WHERE operation <> 'add';

CREATE INDEX proxy_domain_headers_domain_id ON proxy_domain_headers (domain_id);

CREATE TABLE proxy_routing_rules (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    domain_id    uuid NOT NULL CONSTRAINT proxy_routing_rules_domain_id_fkey REFERENCES proxy_domains ON DELETE CASCADE,
    path_prefix  text NOT NULL,
    backend_id   uuid NOT NULL CONSTRAINT proxy_routing_rules_backend_id_fkey REFERENCES proxy_backends,
    priority     bigint NOT NULL,
    active       boolean NOT NULL,
    strip_prefix boolean NOT NULL
);

CREATE INDEX proxy_routing_rules_domain_id ON proxy_routing_rules (domain_id);

CREATE INDEX proxy_routing_rules_backend_id ON proxy_routing_rules (backend_id);

-- To append a new rule after the last one.
CREATE INDEX proxy_routing_rules_priority ON proxy_routing_rules (priority);
