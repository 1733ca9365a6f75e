package squid

import "edge.internal/gateway/internal/kit/host/daemon/grammar"

func admit(text string) error { return grammar.Lines(text, grammar.Longest, forms.Take) }

var forms = grammar.Following(map[string]string{
	"access_log": `none gateway_manager|stdio:/var/log/squid/access\.log`,
	// A quoted name would be a file to read.
	"acl":                           `gateway_[a-z0-9_]+ (?:(?:src|dst) (?:ipv4|ipv6|[0-9a-f.:/-]+)|localport [0-9]+|port 80 443|external gateway_judge|note [a-z_]+ [0-9a-z-]+)`,
	"cache":                         `deny all`,
	"cache_mem":                     `[0-9]+ MB`,
	"coredump_dir":                  `/var/spool/squid`,
	"email_err_data":                `off`,
	"external_acl_type":             `gateway_judge(?: [a-z_-]+=[0-9]+)*(?: %[A-Za-z>]+)* ` + JudgeProgram + ` [0-9a-f]{32} ` + accessListPath + ` /run/squid/gateway-acl\.sock`,
	"forwarded_for":                 `delete`,
	"http_access":                   `(?:allow|deny)(?: !?(?:gateway_[a-z0-9_]+|manager|localhost|all))+`,
	"http_port":                     `(?:(?:[0-9.]+|\[[0-9a-f:.]+\]):)?[0-9]{1,5}`,
	"httpd_suppress_version_string": `on`,
	"include":                       `/etc/squid/conf\.d/\*\.conf`,
	"logfile_rotate":                `0`,
	"pid_filename":                  `/run/gateway-squid/squid\.pid`,
	"pinger_enable":                 `off`,
	"shutdown_lifetime":             `[0-9]+ seconds?`,
	"stats_collection":              `deny gateway_manager`,
	"visible_hostname":              `gateway`,
})
