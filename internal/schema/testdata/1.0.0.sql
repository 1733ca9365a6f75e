
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public.account_api_tokens (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    hash bytea NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT account_api_tokens_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'viewer'::text])))
);

CREATE TABLE public.account_challenges (
    id bytea NOT NULL,
    user_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    tries integer NOT NULL,
    issue_token boolean NOT NULL,
    ceremony jsonb
);

CREATE TABLE public.account_oidc_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    enabled boolean NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    client_secret bytea,
    scopes text[] NOT NULL,
    allow_internal boolean NOT NULL
);

CREATE TABLE public.account_oidc_states (
    hash bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE public.account_passkey_registrations (
    user_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ceremony jsonb NOT NULL
);

CREATE TABLE public.account_passkeys (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    rp_id text NOT NULL,
    credential_id bytea NOT NULL,
    credential jsonb NOT NULL,
    sign_count bigint NOT NULL,
    last_used_at timestamp with time zone
);

CREATE TABLE public.account_recovery_codes (
    user_id uuid NOT NULL,
    hash bytea NOT NULL
);

CREATE TABLE public.account_sessions (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    address text NOT NULL,
    user_agent text NOT NULL,
    method text NOT NULL
);

CREATE TABLE public.account_totp (
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    secret bytea NOT NULL,
    confirmed boolean NOT NULL,
    last_step bigint NOT NULL
);

CREATE TABLE public.account_users (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    active boolean NOT NULL,
    password text NOT NULL,
    totp_enabled boolean NOT NULL,
    oidc_subject text NOT NULL,
    last_login_at timestamp with time zone,
    passkeys integer DEFAULT 0 NOT NULL,
    CONSTRAINT account_users_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'viewer'::text])))
);

CREATE TABLE public.apply_revisions (
    component text NOT NULL,
    revision bigint NOT NULL
);

CREATE TABLE public.audit_entries (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    node_id text NOT NULL,
    details jsonb
);

CREATE TABLE public.certificate_certificates (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    domain_id uuid,
    names text[] NOT NULL,
    source text NOT NULL,
    challenge text NOT NULL,
    dns_provider_id uuid,
    key_type text NOT NULL,
    automatic boolean NOT NULL,
    certificate_pem text NOT NULL,
    private_key_pem bytea NOT NULL,
    not_before timestamp with time zone,
    expires_at timestamp with time zone,
    issuer text NOT NULL,
    fingerprint_sha256 text NOT NULL,
    status text NOT NULL,
    last_renewed_at timestamp with time zone,
    last_error text NOT NULL,
    error_kind text NOT NULL,
    attempts integer NOT NULL,
    next_attempt_at timestamp with time zone,
    renew_at timestamp with time zone,
    CONSTRAINT certificate_certificates_challenge_check CHECK ((challenge = ANY (ARRAY['http-01'::text, 'dns-01'::text]))),
    CONSTRAINT certificate_certificates_key_type_check CHECK ((key_type = ANY (ARRAY['ecdsa-p256'::text, 'rsa-2048'::text]))),
    CONSTRAINT certificate_certificates_source_check CHECK ((source = ANY (ARRAY['acme'::text, 'uploaded'::text, 'self-signed'::text]))),
    CONSTRAINT certificate_certificates_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'valid'::text, 'expiring'::text, 'expired'::text, 'error'::text])))
);

CREATE TABLE public.certificate_dns_providers (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    zones text[] NOT NULL,
    server text NOT NULL,
    endpoint text NOT NULL,
    username text NOT NULL,
    algorithm text NOT NULL,
    secret bytea NOT NULL
);

CREATE TABLE public.dhcp_reservations (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    subnet_id uuid NOT NULL,
    mac text NOT NULL,
    ip text NOT NULL,
    hostname text NOT NULL
);

CREATE TABLE public.dhcp_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    enabled boolean NOT NULL,
    default_lease_seconds integer NOT NULL,
    max_lease_seconds integer NOT NULL
);

CREATE TABLE public.dhcp_subnets (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    interface text NOT NULL,
    cidr text NOT NULL,
    range_start text NOT NULL,
    range_end text NOT NULL,
    gateway text NOT NULL,
    dns_servers text[] NOT NULL,
    ntp_servers text[] NOT NULL,
    domain_name text NOT NULL,
    lease_seconds integer,
    active boolean NOT NULL
);

CREATE TABLE public.dns_records (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    zone_id uuid NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    value text NOT NULL,
    ttl integer NOT NULL,
    priority integer,
    weight integer,
    port integer,
    CONSTRAINT dns_records_type_check CHECK ((type = ANY (ARRAY['A'::text, 'AAAA'::text, 'CNAME'::text, 'TXT'::text, 'MX'::text, 'SRV'::text, 'NS'::text, 'PTR'::text, 'CAA'::text])))
);

CREATE TABLE public.dns_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    upstream_forwards text[] NOT NULL,
    access_acl text[] NOT NULL,
    listen_addresses text[] NOT NULL,
    cache_min_ttl integer NOT NULL,
    cache_max_ttl integer NOT NULL,
    dnssec_validation boolean NOT NULL,
    qname_minimisation boolean NOT NULL
);

CREATE TABLE public.dns_zones (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    forward_to text[] NOT NULL,
    description text NOT NULL,
    active boolean NOT NULL
);

CREATE TABLE public.firewall_address_groups (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    members uuid[] NOT NULL
);

CREATE TABLE public.firewall_address_objects (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    description text NOT NULL,
    resolved text[] NOT NULL,
    CONSTRAINT firewall_address_objects_kind_check CHECK ((kind = ANY (ARRAY['host'::text, 'network'::text, 'range'::text, 'fqdn'::text])))
);

CREATE TABLE public.firewall_nat_rules (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    in_zone text NOT NULL,
    out_zone text NOT NULL,
    protocol text NOT NULL,
    src_cidr text NOT NULL,
    dst_cidr text NOT NULL,
    dst_port integer,
    dst_port_end integer,
    target_address text NOT NULL,
    target_port integer,
    target_port_end integer,
    enabled boolean NOT NULL,
    priority bigint NOT NULL,
    note text NOT NULL,
    labels text[] NOT NULL,
    comment text NOT NULL,
    CONSTRAINT firewall_nat_rules_kind_check CHECK ((kind = ANY (ARRAY['dnat'::text, 'snat'::text, 'masquerade'::text]))),
    CONSTRAINT firewall_nat_rules_protocol_check CHECK ((protocol = ANY (ARRAY['tcp'::text, 'udp'::text, 'tcp+udp'::text, 'any'::text])))
);

CREATE TABLE public.firewall_rule_hits (
    rule_id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    packets bigint NOT NULL,
    bytes bigint NOT NULL,
    last_hit_at timestamp with time zone
);

CREATE TABLE public.firewall_rules (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    src_zone text NOT NULL,
    src_kind text NOT NULL,
    src_object_id uuid,
    src_group_id uuid,
    src_cidr text NOT NULL,
    dst_zone text NOT NULL,
    dst_kind text NOT NULL,
    dst_object_id uuid,
    dst_group_id uuid,
    dst_cidr text NOT NULL,
    service_object_id uuid,
    service_group_id uuid,
    action text NOT NULL,
    log boolean NOT NULL,
    priority bigint NOT NULL,
    enabled boolean NOT NULL,
    comment text NOT NULL,
    note text NOT NULL,
    labels text[] NOT NULL,
    CONSTRAINT firewall_rules_action_check CHECK ((action = ANY (ARRAY['accept'::text, 'drop'::text, 'reject'::text]))),
    CONSTRAINT firewall_rules_dst_kind_check CHECK ((dst_kind = ANY (ARRAY['any'::text, 'object'::text, 'group'::text, 'cidr'::text]))),
    CONSTRAINT firewall_rules_src_kind_check CHECK ((src_kind = ANY (ARRAY['any'::text, 'object'::text, 'group'::text, 'cidr'::text])))
);

CREATE TABLE public.firewall_service_groups (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    members uuid[] NOT NULL,
    builtin boolean NOT NULL
);

CREATE TABLE public.firewall_services (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    protocol text NOT NULL,
    port_start integer,
    port_end integer,
    description text NOT NULL,
    builtin boolean NOT NULL,
    CONSTRAINT firewall_services_protocol_check CHECK ((protocol = ANY (ARRAY['tcp'::text, 'udp'::text, 'tcp+udp'::text, 'icmp'::text, 'icmpv6'::text, 'any'::text])))
);

CREATE TABLE public.firewall_zones (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    builtin boolean NOT NULL
);

CREATE TABLE public.fwdproxy_acls (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    value text NOT NULL,
    action text NOT NULL,
    priority bigint NOT NULL,
    active boolean NOT NULL,
    CONSTRAINT fwdproxy_acls_action_check CHECK ((action = ANY (ARRAY['allow'::text, 'deny'::text]))),
    CONSTRAINT fwdproxy_acls_type_check CHECK ((type = ANY (ARRAY['src'::text, 'dst'::text, 'dstdomain'::text, 'dstdom_regex'::text, 'url_regex'::text, 'port'::text, 'method'::text, 'time'::text])))
);

CREATE TABLE public.fwdproxy_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    enabled boolean NOT NULL,
    listen_addresses text[] NOT NULL,
    port integer NOT NULL,
    cache_mb integer NOT NULL,
    allowed_networks text[] NOT NULL
);

CREATE TABLE public.goose_db_version (
    id integer NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.goose_db_version ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.goose_db_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.network_addresses (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    interface_id uuid NOT NULL,
    address text NOT NULL,
    prefix integer NOT NULL,
    is_vip boolean NOT NULL,
    vip_priority integer NOT NULL,
    description text NOT NULL
);

CREATE TABLE public.network_interfaces (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    role text NOT NULL,
    parent text NOT NULL,
    vlan_id integer,
    members text[] NOT NULL,
    mtu integer,
    bond_mode text,
    description text NOT NULL,
    active boolean NOT NULL,
    CONSTRAINT network_interfaces_type_check CHECK ((type = ANY (ARRAY['ethernet'::text, 'vlan'::text, 'bond'::text, 'bridge'::text, 'wireguard'::text]))),
    CONSTRAINT network_interfaces_vlan_id_check CHECK (((vlan_id >= 1) AND (vlan_id <= 4094)))
);

CREATE TABLE public.network_routes (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    destination text NOT NULL,
    gateway text NOT NULL,
    dev text NOT NULL,
    metric bigint NOT NULL,
    table_name text NOT NULL,
    active boolean NOT NULL,
    comment text NOT NULL
);

CREATE TABLE public.ntp_pools (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    address text NOT NULL,
    iburst boolean NOT NULL,
    prefer boolean NOT NULL,
    minpoll integer NOT NULL,
    maxpoll integer NOT NULL,
    CONSTRAINT ntp_pools_kind_check CHECK ((kind = ANY (ARRAY['pool'::text, 'server'::text])))
);

CREATE TABLE public.ntp_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    listen_addresses text[] NOT NULL,
    allow_acl text[] NOT NULL,
    serve_clients boolean NOT NULL,
    makestep text NOT NULL,
    rtcsync boolean NOT NULL
);

CREATE TABLE public.proxy_backends (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    scheme text NOT NULL,
    lb_algorithm text NOT NULL,
    websocket boolean NOT NULL,
    force_http1 boolean NOT NULL,
    active boolean NOT NULL,
    health_check_enabled boolean NOT NULL,
    health_check_path text NOT NULL,
    health_check_method text NOT NULL,
    health_check_host text NOT NULL,
    health_check_expect text NOT NULL,
    health_check_interval_seconds integer NOT NULL,
    verify_tls boolean NOT NULL,
    CONSTRAINT proxy_backends_lb_algorithm_check CHECK ((lb_algorithm = ANY (ARRAY['roundrobin'::text, 'leastconn'::text, 'source'::text]))),
    CONSTRAINT proxy_backends_scheme_check CHECK ((scheme = ANY (ARRAY['http'::text, 'https'::text])))
);

CREATE TABLE public.proxy_domain_headers (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    domain_id uuid NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    operation text NOT NULL,
    CONSTRAINT proxy_domain_headers_operation_check CHECK ((operation = ANY (ARRAY['set'::text, 'add'::text, 'remove'::text])))
);

CREATE TABLE public.proxy_domains (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    backend_id uuid NOT NULL,
    active boolean NOT NULL,
    http_to_https boolean NOT NULL,
    disable_h3 boolean NOT NULL,
    hsts_enabled boolean NOT NULL,
    hsts_max_age bigint NOT NULL,
    hsts_include_subdomains boolean NOT NULL,
    hsts_preload boolean NOT NULL,
    rate_limit_enabled boolean NOT NULL,
    rate_limit_requests integer NOT NULL,
    rate_limit_period_seconds integer NOT NULL,
    maintenance boolean NOT NULL,
    max_body_size_bytes bigint NOT NULL,
    www_redirect text NOT NULL,
    notes text NOT NULL,
    certificate_id uuid,
    CONSTRAINT proxy_domains_www_redirect_check CHECK ((www_redirect = ANY (ARRAY['none'::text, 'to_www'::text, 'to_apex'::text])))
);

CREATE TABLE public.proxy_routing_rules (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    domain_id uuid NOT NULL,
    path_prefix text NOT NULL,
    backend_id uuid NOT NULL,
    priority bigint NOT NULL,
    active boolean NOT NULL,
    strip_prefix boolean NOT NULL
);

CREATE TABLE public.proxy_servers (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    backend_id uuid NOT NULL,
    name text NOT NULL,
    address text NOT NULL,
    port integer NOT NULL,
    weight integer NOT NULL,
    backup boolean NOT NULL,
    active boolean NOT NULL
);

CREATE TABLE public.radius_clients (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    address text NOT NULL,
    secret bytea NOT NULL
);

CREATE TABLE public.radius_settings (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    enabled boolean NOT NULL,
    auth_port integer NOT NULL,
    acct_port integer NOT NULL,
    listen_addresses text[] NOT NULL
);

CREATE TABLE public.radius_users (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    password bytea NOT NULL,
    active boolean NOT NULL,
    reply_attributes jsonb
);

CREATE TABLE public.tunnel_interfaces (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    mode text NOT NULL,
    address_cidr text NOT NULL,
    listen_port integer NOT NULL,
    client_routes text NOT NULL,
    dns text NOT NULL,
    mtu integer,
    endpoint_host text NOT NULL,
    public_key text NOT NULL,
    private_key bytea NOT NULL,
    upstream_public_key text NOT NULL,
    upstream_endpoint text NOT NULL,
    upstream_preshared_key bytea,
    upstream_allowed_ips text NOT NULL,
    upstream_keepalive integer NOT NULL,
    active boolean NOT NULL,
    CONSTRAINT tunnel_interfaces_mode_check CHECK ((mode = ANY (ARRAY['server'::text, 'client'::text])))
);

CREATE TABLE public.tunnel_peers (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    interface_id uuid NOT NULL,
    name text NOT NULL,
    public_key text NOT NULL,
    private_key bytea,
    preshared_key bytea,
    allowed_ips text NOT NULL,
    endpoint text NOT NULL,
    keepalive integer NOT NULL,
    active boolean NOT NULL
);

INSERT INTO public.account_oidc_settings VALUES ('00000000-0000-7000-8000-000000000002', '2026-11-15 21:25:53.963514+00', '2026-11-15 21:25:53.963514+00', false, '', '', NULL, '{openid,email,profile}', false);

INSERT INTO public.dhcp_settings VALUES ('00000000-0000-7000-8000-000000000001', '2026-11-15 21:25:54.14397+00', '2026-11-15 21:25:54.14397+00', false, 3600, 86400);

INSERT INTO public.dns_settings VALUES ('00000000-0000-7000-8000-000000000001', '2026-11-15 21:25:54.14397+00', '2026-11-15 21:25:54.14397+00', '{9.9.9.9,1.1.1.1}', '{127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7,fe80::/10}', '{127.0.0.1,::1}', 0, 86400, true, true);

INSERT INTO public.firewall_rules VALUES ('00000000-0000-7000-8000-000000000401', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Web to the gateway', 'any', 'any', NULL, NULL, '', 'self', 'any', NULL, NULL, '', NULL, '00000000-0000-7000-8000-000000000301', 'accept', false, 10, true, '', '', '{}');

INSERT INTO public.firewall_service_groups VALUES ('00000000-0000-7000-8000-000000000301', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Web', 'HTTP, HTTPS and HTTP/3.', '{00000000-0000-7000-8000-000000000201,00000000-0000-7000-8000-000000000202,00000000-0000-7000-8000-000000000203}', true);
INSERT INTO public.firewall_service_groups VALUES ('00000000-0000-7000-8000-000000000302', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Mail-Submit', 'How people hand in mail.', '{00000000-0000-7000-8000-000000000207,00000000-0000-7000-8000-000000000208}', true);
INSERT INTO public.firewall_service_groups VALUES ('00000000-0000-7000-8000-000000000303', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Mail-Receive', 'How mail arrives and is read.', '{00000000-0000-7000-8000-000000000206,00000000-0000-7000-8000-000000000209,00000000-0000-7000-8000-000000000210,00000000-0000-7000-8000-000000000211}', true);
INSERT INTO public.firewall_service_groups VALUES ('00000000-0000-7000-8000-000000000304', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'DNS', 'Name resolution.', '{00000000-0000-7000-8000-000000000205}', true);
INSERT INTO public.firewall_service_groups VALUES ('00000000-0000-7000-8000-000000000305', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Ping', 'ICMP for both families.', '{00000000-0000-7000-8000-000000000217,00000000-0000-7000-8000-000000000218}', true);

INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000201', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'HTTP', 'tcp', 80, NULL, 'Web, in the clear.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000202', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'HTTPS', 'tcp', 443, NULL, 'Web over TLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000203', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'QUIC', 'udp', 443, NULL, 'Web over HTTP/3.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000204', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'SSH', 'tcp', 22, NULL, 'Secure shell.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000205', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'DNS', 'tcp+udp', 53, NULL, 'Name resolution.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000206', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'SMTP', 'tcp', 25, NULL, 'Mail between servers.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000207', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'SMTPS', 'tcp', 465, NULL, 'Mail submission over TLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000208', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Submission', 'tcp', 587, NULL, 'Mail submission with STARTTLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000209', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'IMAP', 'tcp', 143, NULL, 'Mailboxes, with STARTTLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000210', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'IMAPS', 'tcp', 993, NULL, 'Mailboxes over TLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000211', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'POP3S', 'tcp', 995, NULL, 'Mail download over TLS.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000212', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'MySQL', 'tcp', 3306, NULL, 'MySQL and MariaDB.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000213', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'PostgreSQL', 'tcp', 5432, NULL, 'PostgreSQL.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000214', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Redis', 'tcp', 6379, NULL, 'Redis and its relatives.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000215', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'RDP', 'tcp+udp', 3389, NULL, 'Remote desktop.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000216', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'WireGuard', 'udp', 51820, NULL, 'VPN tunnels.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000217', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Ping', 'icmp', NULL, NULL, 'ICMP for IPv4.', true);
INSERT INTO public.firewall_services VALUES ('00000000-0000-7000-8000-000000000218', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'Ping-v6', 'icmpv6', NULL, NULL, 'ICMP for IPv6.', true);

INSERT INTO public.firewall_zones VALUES ('00000000-0000-7000-8000-000000000101', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'wan', 'The internet and whatever else is not trusted.', true);
INSERT INTO public.firewall_zones VALUES ('00000000-0000-7000-8000-000000000102', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'lan', 'The people and machines inside.', true);
INSERT INTO public.firewall_zones VALUES ('00000000-0000-7000-8000-000000000103', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'dmz', 'Servers that the outside may reach.', true);
INSERT INTO public.firewall_zones VALUES ('00000000-0000-7000-8000-000000000104', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'mgmt', 'Where the gateway is managed from.', true);
INSERT INTO public.firewall_zones VALUES ('00000000-0000-7000-8000-000000000105', '2026-11-15 21:25:54.023079+00', '2026-11-15 21:25:54.023079+00', 'cluster', 'The link between the nodes of a cluster.', true);

INSERT INTO public.fwdproxy_settings VALUES ('00000000-0000-7000-8000-000000000001', '2026-11-15 21:25:54.14397+00', '2026-11-15 21:25:54.14397+00', false, '{}', 3128, 256, '{10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7}');

INSERT INTO public.goose_db_version VALUES (1, 0, true, '2026-11-15 21:25:53.775126');
INSERT INTO public.goose_db_version VALUES (2, 1, true, '2026-11-15 21:25:53.795297');
INSERT INTO public.goose_db_version VALUES (3, 2, true, '2026-11-15 21:25:53.809124');
INSERT INTO public.goose_db_version VALUES (4, 3, true, '2026-11-15 21:25:53.82296');
INSERT INTO public.goose_db_version VALUES (5, 4, true, '2026-11-15 21:25:53.963514');
INSERT INTO public.goose_db_version VALUES (6, 5, true, '2026-11-15 21:25:54.023079');
INSERT INTO public.goose_db_version VALUES (7, 6, true, '2026-11-15 21:25:54.052664');
INSERT INTO public.goose_db_version VALUES (8, 7, true, '2026-11-15 21:25:54.08445');
INSERT INTO public.goose_db_version VALUES (9, 8, true, '2026-11-15 21:25:54.14397');
INSERT INTO public.goose_db_version VALUES (10, 9, true, '2026-11-15 21:25:54.231767');

INSERT INTO public.ntp_pools VALUES ('8a42a3a2-03bd-4ecf-ac83-5c453b058b6b', '2026-11-15 21:25:53.82296+00', '2026-11-15 21:25:53.82296+00', 'pool', '0.debian.pool.ntp.org', true, false, 6, 10);
INSERT INTO public.ntp_pools VALUES ('bbe96f65-1bbf-45c5-91bb-16935c20df29', '2026-11-15 21:25:53.82296+00', '2026-11-15 21:25:53.82296+00', 'pool', '1.debian.pool.ntp.org', true, false, 6, 10);
INSERT INTO public.ntp_pools VALUES ('26ca4d0d-1bbc-47d2-bd49-57d09f96ea5f', '2026-11-15 21:25:53.82296+00', '2026-11-15 21:25:53.82296+00', 'pool', '2.debian.pool.ntp.org', true, false, 6, 10);
INSERT INTO public.ntp_pools VALUES ('6dd23c9c-cc64-4f85-8cba-3d07e5002ead', '2026-11-15 21:25:53.82296+00', '2026-11-15 21:25:53.82296+00', 'pool', '3.debian.pool.ntp.org', true, false, 6, 10);

INSERT INTO public.ntp_settings VALUES ('00000000-0000-7000-8000-000000000001', '2026-11-15 21:25:53.82296+00', '2026-11-15 21:25:53.82296+00', '{}', '{}', false, '1.0 3', true);

INSERT INTO public.radius_settings VALUES ('00000000-0000-7000-8000-000000000001', '2026-11-15 21:25:54.14397+00', '2026-11-15 21:25:54.14397+00', false, 1812, 1813, '{}');

SELECT pg_catalog.setval('public.goose_db_version_id_seq', 10, true);

ALTER TABLE ONLY public.account_api_tokens
    ADD CONSTRAINT account_api_tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.account_api_tokens
    ADD CONSTRAINT account_api_tokens_name_key UNIQUE (user_id, name);

ALTER TABLE ONLY public.account_api_tokens
    ADD CONSTRAINT account_api_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_challenges
    ADD CONSTRAINT account_challenges_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_oidc_settings
    ADD CONSTRAINT account_oidc_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_oidc_states
    ADD CONSTRAINT account_oidc_states_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY public.account_passkey_registrations
    ADD CONSTRAINT account_passkey_registrations_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.account_passkeys
    ADD CONSTRAINT account_passkeys_credential_key UNIQUE (credential_id);

ALTER TABLE ONLY public.account_passkeys
    ADD CONSTRAINT account_passkeys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_recovery_codes
    ADD CONSTRAINT account_recovery_codes_pkey PRIMARY KEY (user_id, hash);

ALTER TABLE ONLY public.account_sessions
    ADD CONSTRAINT account_sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_totp
    ADD CONSTRAINT account_totp_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.account_users
    ADD CONSTRAINT account_users_email_key UNIQUE (email);

ALTER TABLE ONLY public.account_users
    ADD CONSTRAINT account_users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.apply_revisions
    ADD CONSTRAINT apply_revisions_pkey PRIMARY KEY (component);

ALTER TABLE ONLY public.audit_entries
    ADD CONSTRAINT audit_entries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.certificate_certificates
    ADD CONSTRAINT certificate_certificates_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.certificate_dns_providers
    ADD CONSTRAINT certificate_dns_providers_name_key UNIQUE (name);

ALTER TABLE ONLY public.certificate_dns_providers
    ADD CONSTRAINT certificate_dns_providers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dhcp_reservations
    ADD CONSTRAINT dhcp_reservations_ip_key UNIQUE (subnet_id, ip);

ALTER TABLE ONLY public.dhcp_reservations
    ADD CONSTRAINT dhcp_reservations_mac_key UNIQUE (subnet_id, mac);

ALTER TABLE ONLY public.dhcp_reservations
    ADD CONSTRAINT dhcp_reservations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dhcp_settings
    ADD CONSTRAINT dhcp_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dhcp_subnets
    ADD CONSTRAINT dhcp_subnets_cidr_key UNIQUE (cidr);

ALTER TABLE ONLY public.dhcp_subnets
    ADD CONSTRAINT dhcp_subnets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dns_records
    ADD CONSTRAINT dns_records_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dns_settings
    ADD CONSTRAINT dns_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dns_zones
    ADD CONSTRAINT dns_zones_name_key UNIQUE (name);

ALTER TABLE ONLY public.dns_zones
    ADD CONSTRAINT dns_zones_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_address_groups
    ADD CONSTRAINT firewall_address_groups_name_key UNIQUE (name);

ALTER TABLE ONLY public.firewall_address_groups
    ADD CONSTRAINT firewall_address_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_address_objects
    ADD CONSTRAINT firewall_address_objects_name_key UNIQUE (name);

ALTER TABLE ONLY public.firewall_address_objects
    ADD CONSTRAINT firewall_address_objects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_nat_rules
    ADD CONSTRAINT firewall_nat_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_rule_hits
    ADD CONSTRAINT firewall_rule_hits_pkey PRIMARY KEY (rule_id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_service_groups
    ADD CONSTRAINT firewall_service_groups_name_key UNIQUE (name);

ALTER TABLE ONLY public.firewall_service_groups
    ADD CONSTRAINT firewall_service_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_services
    ADD CONSTRAINT firewall_services_name_key UNIQUE (name);

ALTER TABLE ONLY public.firewall_services
    ADD CONSTRAINT firewall_services_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.firewall_zones
    ADD CONSTRAINT firewall_zones_name_key UNIQUE (name);

ALTER TABLE ONLY public.firewall_zones
    ADD CONSTRAINT firewall_zones_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.fwdproxy_acls
    ADD CONSTRAINT fwdproxy_acls_name_key UNIQUE (name);

ALTER TABLE ONLY public.fwdproxy_acls
    ADD CONSTRAINT fwdproxy_acls_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.fwdproxy_settings
    ADD CONSTRAINT fwdproxy_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.goose_db_version
    ADD CONSTRAINT goose_db_version_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.network_addresses
    ADD CONSTRAINT network_addresses_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.network_interfaces
    ADD CONSTRAINT network_interfaces_name_key UNIQUE (name);

ALTER TABLE ONLY public.network_interfaces
    ADD CONSTRAINT network_interfaces_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.network_routes
    ADD CONSTRAINT network_routes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ntp_pools
    ADD CONSTRAINT ntp_pools_address_key UNIQUE (address);

ALTER TABLE ONLY public.ntp_pools
    ADD CONSTRAINT ntp_pools_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.ntp_settings
    ADD CONSTRAINT ntp_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.proxy_backends
    ADD CONSTRAINT proxy_backends_name_key UNIQUE (name);

ALTER TABLE ONLY public.proxy_backends
    ADD CONSTRAINT proxy_backends_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.proxy_domain_headers
    ADD CONSTRAINT proxy_domain_headers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.proxy_domains
    ADD CONSTRAINT proxy_domains_name_key UNIQUE (name);

ALTER TABLE ONLY public.proxy_domains
    ADD CONSTRAINT proxy_domains_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.proxy_routing_rules
    ADD CONSTRAINT proxy_routing_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.proxy_servers
    ADD CONSTRAINT proxy_servers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.radius_clients
    ADD CONSTRAINT radius_clients_address_key UNIQUE (address);

ALTER TABLE ONLY public.radius_clients
    ADD CONSTRAINT radius_clients_name_key UNIQUE (name);

ALTER TABLE ONLY public.radius_clients
    ADD CONSTRAINT radius_clients_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.radius_settings
    ADD CONSTRAINT radius_settings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.radius_users
    ADD CONSTRAINT radius_users_name_key UNIQUE (name);

ALTER TABLE ONLY public.radius_users
    ADD CONSTRAINT radius_users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tunnel_interfaces
    ADD CONSTRAINT tunnel_interfaces_name_key UNIQUE (name);

ALTER TABLE ONLY public.tunnel_interfaces
    ADD CONSTRAINT tunnel_interfaces_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tunnel_interfaces
    ADD CONSTRAINT tunnel_interfaces_private_key_key UNIQUE (public_key);

ALTER TABLE ONLY public.tunnel_peers
    ADD CONSTRAINT tunnel_peers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tunnel_peers
    ADD CONSTRAINT tunnel_peers_public_key_key UNIQUE (interface_id, public_key);

CREATE INDEX account_challenges_user_id ON public.account_challenges USING btree (user_id);

CREATE UNIQUE INDEX account_oidc_settings_one ON public.account_oidc_settings USING btree ((true));

CREATE INDEX account_passkeys_user_id ON public.account_passkeys USING btree (user_id);

CREATE INDEX account_sessions_expires_at ON public.account_sessions USING btree (expires_at);

CREATE INDEX account_sessions_user_id ON public.account_sessions USING btree (user_id);

CREATE UNIQUE INDEX account_users_oidc_subject_key ON public.account_users USING btree (oidc_subject) WHERE (oidc_subject <> ''::text);

CREATE INDEX audit_entries_created_at ON public.audit_entries USING btree (created_at);

CREATE INDEX certificate_certificates_domain_id ON public.certificate_certificates USING btree (domain_id);

CREATE UNIQUE INDEX dhcp_settings_one ON public.dhcp_settings USING btree ((true));

CREATE INDEX dns_records_alias ON public.dns_records USING btree (value) WHERE (type = 'CNAME'::text);

CREATE INDEX dns_records_name ON public.dns_records USING btree (zone_id, name);

CREATE INDEX dns_records_whole_name ON public.dns_records USING btree (name) WHERE (name ~~ '%.'::text);

CREATE UNIQUE INDEX dns_settings_one ON public.dns_settings USING btree ((true));

CREATE UNIQUE INDEX fwdproxy_settings_one ON public.fwdproxy_settings USING btree ((true));

CREATE UNIQUE INDEX network_addresses_address_key ON public.network_addresses USING btree (address, (
CASE
    WHEN ((address)::inet <<= 'fe80::/10'::inet) THEN interface_id
    ELSE NULL::uuid
END)) NULLS NOT DISTINCT;

CREATE UNIQUE INDEX ntp_settings_one ON public.ntp_settings USING btree ((true));

CREATE INDEX proxy_domain_headers_domain_id ON public.proxy_domain_headers USING btree (domain_id);

CREATE UNIQUE INDEX proxy_domain_headers_name_key ON public.proxy_domain_headers USING btree (domain_id, lower(name)) WHERE (operation <> 'add'::text);

CREATE INDEX proxy_domains_backend_id ON public.proxy_domains USING btree (backend_id);

CREATE INDEX proxy_routing_rules_backend_id ON public.proxy_routing_rules USING btree (backend_id);

CREATE INDEX proxy_routing_rules_domain_id ON public.proxy_routing_rules USING btree (domain_id);

CREATE INDEX proxy_routing_rules_priority ON public.proxy_routing_rules USING btree (priority);

CREATE UNIQUE INDEX proxy_servers_name_key ON public.proxy_servers USING btree (backend_id, regexp_replace(name, '[\s.]'::text, '_'::text, 'g'::text));

CREATE UNIQUE INDEX radius_settings_one ON public.radius_settings USING btree ((true));

CREATE UNIQUE INDEX tunnel_interfaces_listen_port_key ON public.tunnel_interfaces USING btree (listen_port) WHERE (listen_port > 0);

CREATE INDEX tunnel_peers_allowed_ips ON public.tunnel_peers USING gin (string_to_array(allowed_ips, ','::text)) WITH (fastupdate=off);

ALTER TABLE ONLY public.account_api_tokens
    ADD CONSTRAINT account_api_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_challenges
    ADD CONSTRAINT account_challenges_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_passkey_registrations
    ADD CONSTRAINT account_passkey_registrations_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_passkeys
    ADD CONSTRAINT account_passkeys_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_recovery_codes
    ADD CONSTRAINT account_recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_sessions
    ADD CONSTRAINT account_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.account_totp
    ADD CONSTRAINT account_totp_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.account_users(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.certificate_certificates
    ADD CONSTRAINT certificate_certificates_dns_provider_id_fkey FOREIGN KEY (dns_provider_id) REFERENCES public.certificate_dns_providers(id);

ALTER TABLE ONLY public.certificate_certificates
    ADD CONSTRAINT certificate_certificates_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES public.proxy_domains(id) ON DELETE SET NULL;

ALTER TABLE ONLY public.dhcp_reservations
    ADD CONSTRAINT dhcp_reservations_subnet_id_fkey FOREIGN KEY (subnet_id) REFERENCES public.dhcp_subnets(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.dns_records
    ADD CONSTRAINT dns_records_zone_id_fkey FOREIGN KEY (zone_id) REFERENCES public.dns_zones(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.firewall_rule_hits
    ADD CONSTRAINT firewall_rule_hits_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES public.firewall_rules(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_dst_group_id_fkey FOREIGN KEY (dst_group_id) REFERENCES public.firewall_address_groups(id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_dst_object_id_fkey FOREIGN KEY (dst_object_id) REFERENCES public.firewall_address_objects(id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_service_group_id_fkey FOREIGN KEY (service_group_id) REFERENCES public.firewall_service_groups(id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_service_object_id_fkey FOREIGN KEY (service_object_id) REFERENCES public.firewall_services(id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_src_group_id_fkey FOREIGN KEY (src_group_id) REFERENCES public.firewall_address_groups(id);

ALTER TABLE ONLY public.firewall_rules
    ADD CONSTRAINT firewall_rules_src_object_id_fkey FOREIGN KEY (src_object_id) REFERENCES public.firewall_address_objects(id);

ALTER TABLE ONLY public.network_addresses
    ADD CONSTRAINT network_addresses_interface_id_fkey FOREIGN KEY (interface_id) REFERENCES public.network_interfaces(id);

ALTER TABLE ONLY public.network_interfaces
    ADD CONSTRAINT network_interfaces_role_fkey FOREIGN KEY (role) REFERENCES public.firewall_zones(name) ON UPDATE CASCADE;

ALTER TABLE ONLY public.proxy_domain_headers
    ADD CONSTRAINT proxy_domain_headers_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES public.proxy_domains(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.proxy_domains
    ADD CONSTRAINT proxy_domains_backend_id_fkey FOREIGN KEY (backend_id) REFERENCES public.proxy_backends(id);

ALTER TABLE ONLY public.proxy_domains
    ADD CONSTRAINT proxy_domains_certificate_id_fkey FOREIGN KEY (certificate_id) REFERENCES public.certificate_certificates(id);

ALTER TABLE ONLY public.proxy_routing_rules
    ADD CONSTRAINT proxy_routing_rules_backend_id_fkey FOREIGN KEY (backend_id) REFERENCES public.proxy_backends(id);

ALTER TABLE ONLY public.proxy_routing_rules
    ADD CONSTRAINT proxy_routing_rules_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES public.proxy_domains(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.proxy_servers
    ADD CONSTRAINT proxy_servers_backend_id_fkey FOREIGN KEY (backend_id) REFERENCES public.proxy_backends(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tunnel_peers
    ADD CONSTRAINT tunnel_peers_interface_id_fkey FOREIGN KEY (interface_id) REFERENCES public.tunnel_interfaces(id) ON DELETE CASCADE;

