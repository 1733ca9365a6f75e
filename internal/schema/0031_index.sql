-- +goose Up

-- A renewal checks whether another certificate has one of the names, and whether a domain uses the certificate.
CREATE INDEX certificate_certificates_names ON certificate_certificates USING gin (names);
CREATE INDEX proxy_domains_certificate_id ON proxy_domains (certificate_id) WHERE certificate_id IS NOT NULL;

-- A deletion checks for references.
CREATE INDEX certificate_certificates_dns_provider_id ON certificate_certificates (dns_provider_id) WHERE dns_provider_id IS NOT NULL;
CREATE INDEX firewall_rules_src_object_id ON firewall_rules (src_object_id) WHERE src_object_id IS NOT NULL;
CREATE INDEX firewall_rules_src_group_id ON firewall_rules (src_group_id) WHERE src_group_id IS NOT NULL;
CREATE INDEX firewall_rules_dst_object_id ON firewall_rules (dst_object_id) WHERE dst_object_id IS NOT NULL;
CREATE INDEX firewall_rules_dst_group_id ON firewall_rules (dst_group_id) WHERE dst_group_id IS NOT NULL;
CREATE INDEX firewall_rules_service_object_id ON firewall_rules (service_object_id) WHERE service_object_id IS NOT NULL;
CREATE INDEX firewall_rules_service_group_id ON firewall_rules (service_group_id) WHERE service_group_id IS NOT NULL;

-- To append a new row after all others.
CREATE INDEX firewall_rules_priority ON firewall_rules (priority);
CREATE INDEX firewall_nat_rules_priority ON firewall_nat_rules (priority);
CREATE INDEX fwdproxy_acls_priority ON fwdproxy_acls (priority);
