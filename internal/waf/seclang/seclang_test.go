package seclang

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func rule(actions string) string { return `SecRule ARGS "@rx x" "id:1,phase:2,` + actions + `"` }

func with(op string) string { return `SecRule ARGS "` + op + `" "id:1,phase:2,deny"` }

func of(variables string) string { return `SecRule ` + variables + ` "@rx x" "id:1,phase:2,deny"` }

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, cause string }{
		// files, programs, the network, the process
		{`Include /etc/passwd`, `"Include" is not allowed`},
		{`SecDebugLog /tmp/x`, "not allowed"},
		{`SecDebugLogLevel 9`, "not allowed"},
		{`SecAuditLog /tmp/x`, "not allowed"},
		{`SecAuditLogType HTTPS`, "not allowed"},
		{`SecAuditEngine On`, "not allowed"},
		{`SecRemoteRules key https://example.com/rules`, "not allowed"},
		{`SecGeoLookupDb /etc/passwd`, "not allowed"},
		{with(`@pmFromFile /etc/passwd`), `"@pmFromFile" is not allowed`},
		{with(`@pmf /etc/passwd`), "not allowed"},
		{with(`!@pmf /etc/passwd`), "not allowed"},
		{with(`@ipMatchFromFile /etc/passwd`), "not allowed"},
		{with(`@ipMatchF /etc/passwd`), "not allowed"},
		{with(`@validateSchema /etc/passwd`), "not allowed"},
		{with(`@inspectFile /bin/true`), "not allowed"},
		{with(`@rbl example.com`), "not allowed"},
		{with(`@pmFromDataset x`), "not allowed"},
		{with(`@ipMatchFromDataset x`), "not allowed"},
		{rule(`setenv:PATH=/tmp`), `action "setenv" is not allowed`},
		{rule(`exec:/bin/true`), "not allowed"},
		{rule(`exec`), "not allowed"},
		{of(`ENV:PATH`), `variable "ENV" is not allowed`},
		{of(`ARGS|env:PATH`), "not allowed"},
		{with(`@streq %{ENV.PATH}`), `"%{ENV.PATH}"`},
		{with(`@eq %{env.PATH}`), "not allowed"},
		{with(`@within %{ARGS.x`), "not allowed"},
		{rule(`pass,setvar:'tx.custom_x=%{ENV.PATH}'`), "not allowed"},
		{rule(`pass,logdata:'%{ENV.PATH}'`), "not allowed"},
		{rule(`pass,msg:'%{ARGS.password}'`), "msg must not contain"},
		{of(`FILES_TMPNAMES`), "not allowed"},
		{of(`FILES_TMP_CONTENT`), "not allowed"},
		// what the engine does not know, or only seems to know
		{`SecRuleScript x.lua`, "not allowed"},
		{`SecTmpDir /tmp`, "not allowed"},
		{`SecDataDir /tmp`, "not allowed"},
		{`SecUploadDir /tmp`, "not allowed"},
		{`SecConnEngine Off`, "not allowed"},
		{`SecHashEngine On`, "not allowed"},
		{with(`@geoLookup`), "not allowed"},
		{with(`@fuzzyHash x 1`), "not allowed"},
		{with(`@verifyCC \d{13,16}`), "not allowed"},
		{with(`@rsub s/a/b/`), "not allowed"},
		{with(`@containsWord x`), "not allowed"},
		{with(`@ipMatch 10.0.0.0/8,nonsense`), "neither an address nor a network"},
		{with(`@ipMatch fe80::1%eth0`), "neither an address nor a network"},
		{with(`@eq many`), "whole number"},
		{with(`@detectSQLi x`), "takes no argument"},
		{of(`IP:score`), "not allowed"},
		{of(`GLOBAL:score`), "not allowed"},
		{of(`RESPONSE_BODY`), "not allowed"},
		{rule(`pass,initcol:ip=%{REMOTE_ADDR}`), "not allowed"},
		{rule(`pass,expirevar:tx.custom_x=60`), "not allowed"},
		{rule(`pass,setvar:ip.custom_x=1`), "only tx.custom_"},
		{rule(`proxy:http://example.com`), "not allowed"},
		{rule(`append:x`), "not allowed"},
		{rule(`pause:1000`), "not allowed"},
		{rule(`setsid:x`), "not allowed"},
		{rule(`setuid:x`), "not allowed"},
		{rule(`sanitiseArg:x`), "not allowed"},
		{rule(`sanitiseMatched`), "not allowed"},
		{rule(`auditlog`), "not allowed"},
		{rule(`noauditlog`), "not allowed"},
		{`SecRule ARGS "@rx x" "id:1,phase:4,deny"`, "phase"},
		{`SecRule ARGS "@rx x" "id:1,phase:5,deny"`, "phase"},
		// the engine itself
		{`SecRuleEngine Off`, "not allowed"},
		{`secruleengine off`, "not allowed"},
		{"SecRule\\\nEngine Off", `"SecRuleEngine" is not allowed`},
		{"SecRule\\\n# hidden\n\n   Engine Off", `line 1: "SecRuleEngine"`},
		{"SecAction \"id:1,phase:1,pass,c\\\ntl:ruleEngine=Off\"", `ctl:"ruleEngine" is not allowed`},
		{`SecRequestBodyAccess Off`, "not allowed"},
		{`SecRequestBodyLimit 1`, "not allowed"},
		{`SecResponseBodyAccess Off`, "not allowed"},
		{`SecArgumentsLimit 1`, "not allowed"},
		{`SecDefaultAction "phase:1,log,pass"`, "not allowed"},
		{`SecIgnoreRuleCompilationErrors On`, "not allowed"},
		{`SecRxPreFilter On`, "not allowed"},
		{"SecDataset x `\na\n`", "backticks"},
		{`SecComponentSignature x`, "not allowed"},
		{`SecServerSignature x`, "not allowed"},
		{`SecWebAppId x`, "not allowed"},
		{`SecSensorId x`, "not allowed"},
		{rule(`pass,ctl:ruleEngine=Off`), "not allowed"},
		{rule(`pass,ctl:RULEENGINE=DetectionOnly`), "not allowed"},
		{rule(`pass,ctl:auditEngine=On`), "not allowed"},
		{rule(`pass,ctl:auditLogParts=+E`), "not allowed"},
		{rule(`pass,ctl:requestBodyAccess=Off`), "not allowed"},
		{rule(`pass,ctl:requestBodyProcessor=XML`), "not allowed"},
		{rule(`pass,ctl:requestBodyLimit=1`), "not allowed"},
		{rule(`pass,ctl:responseBodyAccess=Off`), "not allowed"},
		{rule(`pass,ctl:forceRequestBodyVariable=On`), "not allowed"},
		{rule(`pass,ctl:hashEngine=On`), "not allowed"},
		{rule(`pass,ctl:debugLogLevel=9`), "not allowed"},
		{rule(`pass,ctl:ruleRemoveByTag=OWASP_CRS`), "not allowed"},
		{rule(`pass,ctl:ruleRemoveByMsg=x`), "not allowed"},
		{rule(`pass,ctl:ruleRemoveTargetByTag=OWASP_CRS;ARGS`), "not allowed"},
		{rule(`pass,ctl:ruleRemoveById=949110`), "can be tuned"},
		{rule(`pass,ctl:ruleRemoveById=200002`), "can be tuned"},
		{rule(`pass,ctl:ruleRemoveById=901120`), "can be tuned"},
		{rule(`pass,ctl:ruleRemoveById=959100`), "can be tuned"},
		{rule(`pass,ctl:ruleRemoveById=911000-948999`), "within one thousand"},
		{rule(`pass,ctl:ruleRemoveById=+942100`), "not a rule id"},
		{rule(`pass,ctl:ruleRemoveById=942100;ARGS`), "without a target"},
		{rule(`pass,ctl:ruleRemoveTargetById=942100`), "variable"},
		{rule(`pass,ctl:ruleRemoveTargetById=942100;ENV:x`), "not allowed"},
		// what removes the protection
		{rule(`allow`), `action "allow" is not allowed`},
		{rule(`allow:request`), "not allowed"},
		{rule(`drop`), "not allowed"},
		{rule(`redirect:http://example.com`), "not allowed"},
		{rule(`pass,skip:5`), "not allowed"},
		{rule(`pass,skipAfter:END-REQUEST-949-BLOCKING-EVALUATION`), "no SecMarker"},
		{"SecMarker BACK\n" + rule(`pass,skipAfter:BACK`), "line 2: skipAfter: no SecMarker"},
		{rule(`deny,status:200`), "400…499"},
		{rule(`deny,status:500`), "400…499"},
		{rule(`pass,setvar:tx.inbound_anomaly_score_threshold=9999`), "only tx.custom_"},
		{rule(`pass,setvar:tx.blocking_paranoia_level=0`), "only tx.custom_"},
		{rule(`pass,setvar:!tx.custom_x`), "only tx.custom_"},
		{rule(`pass,setvar:tx.custom_x`), "only tx.custom_"},
		{rule(`pass,setvar:'tx.custom_%{ARGS.x}=1'`), "only tx.custom_"},
		{`SecRuleRemoveByTag OWASP_CRS`, "not allowed"},
		{`SecRuleRemoveByMsg x`, "not allowed"},
		{`SecRuleUpdateTargetByTag OWASP_CRS "!ARGS:x"`, "not allowed"},
		{`SecRuleRemoveById 1-999999`, "can be tuned"},
		{`SecRuleRemoveById 911000-948999`, "within one thousand"},
		{`SecRuleRemoveById 942199-942100`, "ends before it starts"},
		{`SecRuleRemoveById 949110`, "can be tuned"},
		{`SecRuleRemoveById 942100 200002`, "can be tuned"},
		{`SecRuleRemoveById -942100`, "not a rule id"},
		{`SecRuleRemoveById 7`, "there is no rule 7"},
		{`SecRuleUpdateActionById 949110 "pass"`, "can be tuned"},
		{`SecRuleUpdateActionById 942100 "allow"`, "not allowed"},
		{`SecRuleUpdateActionById 942100 "id:5"`, "cannot be changed"},
		{`SecRuleUpdateActionById 942100 "chain"`, "cannot be changed"},
		{`SecRuleUpdateTargetById 942100 "!ARGS:a,!ARGS:b"`, "not by commas"},
		{`SecRuleUpdateTargetById 942100 "!ENV:a"`, "not allowed"},
		{`SecRuleUpdateTargetById 942100`, "takes ids"},
		{`SecRuleUpdateTargetById 942100 "!ARGS"`, "to leave out"},
		// ids
		{`SecRule ARGS "@rx x" "phase:2,deny"`, "no id"},
		{`SecRule ARGS "@rx x" "id:0,deny"`, "1…99999"},
		{`SecRule ARGS "@rx x" "id:100000,deny"`, "1…99999"},
		{`SecRule ARGS "@rx x" "id:942100,deny"`, "1…99999"},
		{`SecRule ARGS "@rx x" "id:-1,deny"`, "1…99999"},
		{`SecRule ARGS "@rx x" "id:1,id:2,deny"`, "is set twice"},
		{rule("deny") + "\n" + rule("deny"), "line 2: the id 1 is already taken at line 1"},
		// chains
		{rule("deny,chain"), "line 1: the chain has no further rule"},
		{rule("deny,chain") + "\nSecMarker END", "line 2: the chain that starts at line 1"},
		{rule("deny,chain") + "\nSecAction \"id:2,pass\"", "must go on with a SecRule"},
		{rule("deny,chain") + "\n" + rule("deny"), "first rule of the chain"},
		{rule("pass,chain") + "\nSecRule ARGS \"@rx x\" \"t:none,deny\"", "first rule of the chain"},
		{`SecAction "id:1,pass,chain"`, "cannot start a chain"},
		// quotes and lines
		{`SecRule ARGS "@rx x" "id:1,msg:'a,deny"`, "not closed"},
		{`SecRule ARGS "@rx x" "id:1,msg:a'b',deny"`, "single quotes"},
		{`SecRule ARGS "@rx x" "id:1,msg:'a'b,deny"`, "comma is expected"},
		{`SecRule ARGS "@rx x" "id:1,msg:'say \"x\"',deny"`, "double quote inside the actions"},
		{`SecRule ARGS "@rx x"`, "SecRule takes"},
		{`SecRule ARGS @rx "id:1,deny"`, "SecRule takes"},
		{`SecRule ARGS "@rx x" "id:1,deny" "allow"`, "SecRule takes"},
		{`SecRule "ARGS"x "@rx x" "id:1,deny"`, "space is missing"},
		{`SecRule ARGS "@rx x" "id:1,deny`, "not closed"},
		{`SecRule AR"GS "@rx x" "id:1,deny"`, "double quote inside"},
		{`SecRule ARGS "@rx x" "id:1,deny,"`, "an action is expected"},
		{`SecRule ARGS "@rx x" "id:1,,deny"`, "an action is expected"},
		{`SecRule ARGS "@rx x" "id:1,deny:now"`, "takes no value"},
		{`SecRule ARGS "@rx x" "id:1,deny,msg:"`, "takes a value"},
		{`SecRule ARGS "@rx x" "id:1,deny,pass"`, "cannot deny and pass"},
		{`SecRule ARGS "@rx x\ " "id:1,deny"`, "backslash at the end"},
		{`SecRule ARGS:/x "@rx x" "id:1,deny"`, "does not end with a slash"},
		{`SecRule ARGS:a/b "@rx x" "id:1,deny"`, "slash"},
		{`SecRule ARGS:// "@rx x" "id:1,deny"`, "empty"},
		{`SecRule ARGS| "@rx x" "id:1,deny"`, "variable"},
		{`SecRule XML:/etc "@rx x" "id:1,deny"`, "XML takes"},
		{"\n\n" + rule("deny") + "\\", "line 3: the directive ends with a backslash"},
		{"# fine\n" + `SecRule ARGS "@rx (" "id:1,deny"`, "line 2: "},
		{rule("deny") + "\n" + `SecRule ARGS "@validateByteRange 900" "id:2,deny"`, "line 2: "},
		{rule("deny") + "\x00", "control character"},
		{rule("deny") + "\rInclude x", "control character"},
		{rule("deny") + "\xff", "UTF-8"},
		// size
		{strings.Repeat("#", MaxBytes+1), "longer than"},
		{with(strings.Repeat("x", MaxLine)), "longer than"},
		{strings.Repeat("x\\\n", MaxLine+1), "longer than"},
		{strings.Repeat("SecMarker abc\n", MaxDirectives+1), "more than 500"},
		{of(strings.Repeat("ARGS|", 64) + "ARGS"), "more than 64"},
		{with(`(((a{1000}){1000}){1000})`), "line 1: "},
	} {
		r, err := Compile(c.text)
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Errorf("%.80s: accepted as %v", c.text, r)
		} else if !strings.Contains(err.Error(), c.cause) || e.Line < 1 {
			t.Errorf("%.80s: %v; expected %q", c.text, err, c.cause)
		} else if len(err.Error()) > 500 {
			t.Errorf("%.80s: a complaint of %d bytes", c.text, len(err.Error()))
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct{ text, canonical string }{
		{"", ""},
		{"# nothing\n\n", ""},
		{rule("deny"), `SecRule ARGS "@rx x" "id:1,phase:2,deny"`},
		{rule("block,log"), `SecRule ARGS "@rx x" "id:1,phase:2,deny,log"`},
		{`secrule "args" "x" "ID:'1',PHASE:request,Deny"`, `SecRule ARGS "@rx x" "id:1,phase:2,deny"`},
		{"SecRule \\\n  ARGS \\\n# comment\n\t\"@rx x\"\\\n\\\n  \\\n \"id:1,\\\n  phase:2,\\\n  deny\"", ""},
		{`SecRule ARGS "@rx x""id:1,deny"`, `SecRule ARGS "@rx x" "id:1,deny"`},
		{"SecRule\tARGS\t\"@rx a\tb\"\t\"id:1, phase:2, deny\"", "SecRule ARGS \"@rx a\tb\" \"id:1,phase:2,deny\""},
		{"SecRule ARGS \"@rx x\" \"id:1,phase:2,deny\"\r\nSecMarker END\r\n", "SecRule ARGS \"@rx x\" \"id:1,phase:2,deny\"\nSecMarker END"},
		{with(`!@pm a b c`), ""},
		{with(`@pm a b c`), ""},
		{with(`@CONTAINS x`), with(`@contains x`)},
		{with(`@streq %{TX.custom_x}`), ""},
		{with(`@strmatch x`), ""},
		{with(`@beginsWith /x`), ""},
		{with(`@endsWith x`), ""},
		{with(`@within a b c`), ""},
		{with(`@eq 0`), ""},
		{with(`@ge 1`), ""},
		{with(`@gt 1`), ""},
		{with(`@le 1`), ""},
		{with(`@lt %{tx.custom_x}`), ""},
		{with(`@ipMatch 10.0.0.0/8, 2001:db8::1`), ""},
		{with(`@detectSQLi`), ""},
		{with(`@detectXSS`), ""},
		{with(`@validateByteRange 32-126,9`), ""},
		{with(`@validateUrlEncoding`), ""},
		{with(`@validateUtf8Encoding`), ""},
		{with(`@unconditionalMatch`), ""},
		{with(`@noMatch`), ""},
		{with(`@restpath /some-random/url-{id}/{name}`), ""},
		{with(`@rx say \"x\" \\\"`), ""},
		{with(`%{1,2}`), with(`@rx %{1,2}`)},
		{with(`!x`), with(`!@rx x`)},
		{with(`@rx é, 'x' # y`), ""},
		{rule(`deny,msg:'it\'s, so',logdata:'%{MATCHED_VAR}',tag:one,tag:'t/w o',severity:critical,rev:1,ver:'x/1',status:404,nolog`),
			`SecRule ARGS "@rx x" "id:1,phase:2,deny,msg:'it\'s, so',logdata:'%{MATCHED_VAR}',tag:one,tag:'t/w o',severity:CRITICAL,rev:1,ver:x/1,status:404,nolog"`},
		{rule(`pass,t:none,t:LowerCase,t:urldecodeuni,capture,multimatch,setvar:'TX.Custom_Hits=+1'`),
			`SecRule ARGS "@rx x" "id:1,phase:2,pass,t:none,t:lowercase,t:urlDecodeUni,capture,multiMatch,setvar:'tx.custom_hits=+1'"`},
		{rule(`pass,skipAfter:FORWARD`) + "\nSecMarker FORWARD", ""},
		{rule(`pass,ctl:ruleremovebyid=942100`), rule(`pass,ctl:ruleRemoveById=942100`)},
		{rule(`pass,ctl:ruleRemoveById=942100-942199`), ""},
		{rule(`pass,ctl:ruleRemoveTargetById=942100;args:comment`), rule(`pass,ctl:ruleRemoveTargetById=942100;ARGS:comment`)},
		{rule(`pass,ctl:'ruleRemoveTargetById=942100;ARGS:/^a{1,2}$/'`), ""},
		{rule(`deny,chain`) + "\nSecRule REQUEST_URI|!REQUEST_HEADERS:a \"@beginsWith /x\" \"t:none,chain\"\nSecRule REMOTE_ADDR \"!@ipMatch 10.0.0.0/8\" \"setvar:'tx.custom_x=1'\"", ""},
		{of(`ARGS|!ARGS:a|REQUEST_HEADERS:/^x-/|&ARGS|XML:/*`), of(`ARGS|REQUEST_HEADERS:/^x-/|&ARGS|XML:/*|!ARGS:a`)},
		{of(`ARGS|!ARGS:a|!ARGS:b|!ARGS:c`), of(`ARGS|!ARGS:a|!ARGS:b|!ARGS:c|!ARGS:c`)},
		{`SecAction "id:99999,phase:1,pass,nolog"`, ""},
		{`SecRuleRemoveById 942100 "942200-942210"`, "SecRuleRemoveById 942100\nSecRuleRemoveById 942200-942210"},
		{`SecRuleUpdateTargetById 942100 941100 "!ARGS:a|!REQUEST_COOKIES:/^b\./"`,
			"SecRuleUpdateTargetById 942100 \"!ARGS:a|!REQUEST_COOKIES:/^b\\./\"\nSecRuleUpdateTargetById 941100 \"!ARGS:a|!REQUEST_COOKIES:/^b\\./\""},
		{`SecRuleUpdateActionById 942100 "pass,log"`, ""},
		{"SecRuleRemoveById 1\n" + rule("deny"), rule("deny") + "\nSecRuleRemoveById 1"},
	} {
		r, err := Compile(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		again, err := Compile(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%s: again: %v, %v", r, again, err)
		}
		if c.canonical == "" {
			continue
		}
		if got := strings.TrimSuffix(r.String(), "\n"); got != c.canonical {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.canonical)
		}
	}
}

// A logical line may be joined from several, and an error names the first of them.
func TestLine(t *testing.T) {
	_, err := Compile("# one\n\nSecRule ARGS \\\n  \"@rx x\" \\\n  \"id:1,\\\n  phase:2,\\\n  allow\"\n")
	if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	r, err := Compile("SecRuleRemoveById 942100\n" + rule("pass,ctl:ruleRemoveById=942199") + "\nSecRuleRemoveById 1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Missing(func(id int) bool { return id == 942100 || id == 942199 }); err != nil {
		t.Error(err)
	}
	if err := r.Missing(func(id int) bool { return id == 942100 }); err == nil || err.Error() != "line 2: the core rule set has no rule 942199" {
		t.Error(err)
	}
}

// A refused text leaves no trace on the machine: no file appears, and an error has no content of one.
func TestTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("SecMarker hunter2\nhunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"Include " + secret, "Include " + dir + "/*",
		with("@pmFromFile " + secret), with("@ipMatchFromFile " + secret), with("@inspectFile /usr/bin/touch " + dir + "/new"),
		"SecDebugLog " + dir + "/debug", "SecAuditLog " + dir + "/audit", rule("setenv:HUNTER=2"), rule("exec:" + secret),
	} {
		_, err := Compile(text)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Compile(rule("deny")); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Error(left, err)
	}
	if _, ok := os.LookupEnv("HUNTER"); ok {
		t.Error("the environment changed")
	}
}

// FuzzCompile checks that the output of an accepted text is accepted again and stays the same, has only allowed directives, one per line,
// and none of the harmful words where the engine would obey it.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"", rule("deny"), with(`@rx \\\"x\" `), of(`ARGS:/a\/b/|!ARGS:'x'`), rule(`msg:'a\'b\\'`), rule(`pass,ctl:'ruleRemoveTargetById=942100;ARGS:/a,b/'`),
		"SecRule\\\nEngine Off", "SecMarker a\\\nbc", "SecAction id:1,pass", "SecAction \"id:1,pass\" x", `SecRuleRemoveById "942100 1"`, "`", "\\", "SecRule ARGS \"!\" \"id:1\"",
		rule("deny,chain") + "\nSecRule ARGS:a|!ARGS:b|!ARGS:c|!ARGS:d \"@eq 1\" \"t:none\"", rule("pass,skipAfter:ABC") + "\nSecMarker ABC",
		"SecRule ARGS \"@rx  x\" \"id:1,msg:  x \"", rule("pass,setvar:tx.custom_a=%{tx.b}"), "SecRuleUpdateActionById 942100 'pass'",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Compile(text)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		canonical := r.String()
		again, err := Compile(canonical)
		if err != nil || again.String() != canonical {
			t.Fatalf("%q became %q, and that %v, %v", text, canonical, again, err)
		}
		if canonical == "" {
			return
		}
		for line := range strings.Lines(canonical) {
			name, _, _ := strings.Cut(line, " ")
			if directives[strings.ToLower(name)] != name || strings.HasSuffix(line, "\\\n") {
				t.Fatalf("%q became %q", text, line)
			}
			args, err := tokens(1, strings.TrimSuffix(line[len(name):], "\n"))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if name != "SecRule" && name != "SecAction" && name != "SecRuleUpdateActionById" {
				continue
			}
			for rest, more := args[len(args)-1].text, true; more; {
				var action, value string
				if action, value, _, rest, more, err = nextAction(1, rest); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if a, ok := actions[strings.ToLower(action)]; !ok || a.name != action {
					t.Fatalf("%q: the action %q", line, action)
				}
				if action == "ctl" && !strings.HasPrefix(value, "ruleRemoveById=") && !strings.HasPrefix(value, "ruleRemoveTargetById=") {
					t.Fatalf("%q: ctl %q", line, value)
				}
			}
		}
	})
}

func TestSteady(t *testing.T) {
	steady := strings.Fields(`
		ARGS ARGS_COMBINED_SIZE ARGS_GET ARGS_GET_NAMES ARGS_NAMES ARGS_POST ARGS_POST_NAMES
		FILES FILES_COMBINED_SIZE FILES_NAMES FILES_SIZES
		MATCHED_VAR MATCHED_VARS MATCHED_VARS_NAMES MATCHED_VAR_NAME
		MULTIPART_FILENAME MULTIPART_NAME MULTIPART_PART_HEADERS MULTIPART_STRICT_ERROR
		QUERY_STRING REQBODY_ERROR REQBODY_PROCESSOR REQBODY_PROCESSOR_ERROR
		REQUEST_BASENAME REQUEST_BODY REQUEST_BODY_LENGTH REQUEST_COOKIES REQUEST_COOKIES_NAMES REQUEST_FILENAME
		REQUEST_HEADERS REQUEST_HEADERS_NAMES REQUEST_LINE REQUEST_METHOD REQUEST_PROTOCOL REQUEST_URI REQUEST_URI_RAW
		SERVER_NAME TX URLENCODED_ERROR XML`)
	for _, name := range variables {
		text := of(name)
		if name == "XML" {
			text = of("XML:/*")
		}
		r, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		// A variable in neither list was added without thinking about this.
		_, other := unsteady[strings.ToLower(name)]
		if want := slices.Contains(steady, name); r.Steady() != want || other == want {
			t.Errorf("%s: %v", name, r.Steady())
		}
	}
	for text, want := range map[string]bool{
		`SecRule ARGS "@streq %{remote_addr}" "id:1,phase:2,deny"`:                                                          false,
		`SecAction "id:1,phase:1,pass,setvar:tx.custom_hour=%{TIME_HOUR}"`:                                                  false,
		`SecRule ARGS "@rx a" "id:1,phase:2,deny,chain"` + "\n" + `SecRule &server_port "@eq 1" "t:none"`:                   false,
		`SecRule ARGS "@rx a" "id:1,phase:2,deny,setvar:'tx.custom_a=%{MATCHED_VAR}'"` + "\nSecRuleRemoveById 942100":       true,
		`SecRule REQUEST_HEADERS:X-Time|REQUEST_COOKIES:timestamp "@contains sometimes" "id:1,phase:1,deny,msg:'at times'"`: false, // to be on the safe side
	} {
		r, err := Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if r.Steady() != want {
			t.Errorf("%s: %v", text, r.Steady())
		}
	}
}
