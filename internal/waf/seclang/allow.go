package seclang

import "strings"

// Whatever is not in these lists is refused: what opens a file, runs a program, uses the network, changes the process or the engine,
// removes the rule set's protection wholesale, or only seems to have an effect.

// The ids that custom rules may have, and the rules of the core rule set that they may tune. Initialization, scoring and the engine's own
// checks are excluded.
const (
	firstOwn, lastOwn   = 1, 99_999
	firstRule, lastRule = 911_000, 948_999
)

func own(id int) bool     { return id >= firstOwn && id <= lastOwn }
func tunable(id int) bool { return own(id) || id >= firstRule && id <= lastRule }

// canon maps the lower-case form of each name to its canonical spelling: we ignore the case of names, although the engine sometimes does
// not.
func canon(names string) map[string]string {
	m := map[string]string{}
	for _, name := range strings.Fields(names) {
		m[strings.ToLower(name)] = name
	}
	return m
}

var directives = canon(`SecRule SecAction SecMarker SecRuleRemoveById SecRuleUpdateTargetById SecRuleUpdateActionById`)

// Variables of the request. Left out on purpose: ENV (the process), FILES_TMPNAMES and FILES_TMP_CONTENT (the machine), GEO, IP and the
// like (not available), and those of the response.
var variables = canon(`
	ARGS ARGS_COMBINED_SIZE ARGS_GET ARGS_GET_NAMES ARGS_NAMES ARGS_POST ARGS_POST_NAMES
	FILES FILES_COMBINED_SIZE FILES_NAMES FILES_SIZES
	MATCHED_VAR MATCHED_VARS MATCHED_VARS_NAMES MATCHED_VAR_NAME
	MULTIPART_FILENAME MULTIPART_NAME MULTIPART_PART_HEADERS MULTIPART_STRICT_ERROR
	QUERY_STRING REMOTE_ADDR REMOTE_PORT
	REQBODY_ERROR REQBODY_PROCESSOR REQBODY_PROCESSOR_ERROR
	REQUEST_BASENAME REQUEST_BODY REQUEST_BODY_LENGTH REQUEST_COOKIES REQUEST_COOKIES_NAMES REQUEST_FILENAME
	REQUEST_HEADERS REQUEST_HEADERS_NAMES REQUEST_LINE REQUEST_METHOD REQUEST_PROTOCOL REQUEST_URI REQUEST_URI_RAW
	SERVER_ADDR SERVER_NAME SERVER_PORT
	TIME TIME_DAY TIME_EPOCH TIME_HOUR TIME_MIN TIME_MON TIME_SEC TIME_WDAY TIME_YEAR
	TX UNIQUE_ID URLENCODED_ERROR XML`)

// unsteady are those whose value may differ for the same request: of the client, the connection and the clock. A variable added above
// that could be one of these must be added here, too.
var unsteady = canon(`
	REMOTE_ADDR REMOTE_PORT SERVER_ADDR SERVER_PORT
	TIME TIME_DAY TIME_EPOCH TIME_HOUR TIME_MIN TIME_MON TIME_SEC TIME_WDAY TIME_YEAR UNIQUE_ID`)

// argument is how an operator treats its argument.
type argument int

const (
	literal   argument = iota // taken literally
	expanded                  // %{variables} are replaced
	number                    // an integer, or %{variables}
	addresses                 // a list of addresses and networks
	none
)

var operators = map[string]struct {
	name string
	argument
}{
	"rx":                   {"rx", literal},
	"pm":                   {"pm", literal},
	"restpath":             {"restpath", literal},
	"validatebyterange":    {"validateByteRange", literal},
	"contains":             {"contains", expanded},
	"streq":                {"streq", expanded},
	"strmatch":             {"strmatch", expanded},
	"beginswith":           {"beginsWith", expanded},
	"endswith":             {"endsWith", expanded},
	"within":               {"within", expanded},
	"eq":                   {"eq", number},
	"ge":                   {"ge", number},
	"gt":                   {"gt", number},
	"le":                   {"le", number},
	"lt":                   {"lt", number},
	"ipmatch":              {"ipMatch", addresses},
	"detectsqli":           {"detectSQLi", none},
	"detectxss":            {"detectXSS", none},
	"validateurlencoding":  {"validateUrlEncoding", none},
	"validateutf8encoding": {"validateUtf8Encoding", none},
	"unconditionalmatch":   {"unconditionalMatch", none},
	"nomatch":              {"noMatch", none},
}

var transformations = canon(`
	base64Decode base64DecodeExt base64Encode cmdLine compressWhitespace cssDecode escapeSeqDecode hexDecode hexEncode
	htmlEntityDecode jsDecode length lowercase md5 none normalisePath normalisePathWin normalizePath normalizePathWin
	removeComments removeCommentsChar removeNulls removeWhitespace replaceComments replaceNulls sha1 trim trimLeft trimRight
	uppercase urlDecode urlDecodeUni urlEncode utf8toUnicode`)

// place is where an action may be used.
type place int

const (
	inRule   place = 1 << iota // a SecRule or SecAction with an id
	inLink                     // a further SecRule of a chain
	inUpdate                   // SecRuleUpdateActionById
)

// actions by lower-case name. Those that decide about the request are "disruptive": a rule has exactly one.
var actions = map[string]struct {
	name       string
	places     place
	value      bool // takes one
	repeated   bool // may be repeated
	disruptive bool
}{
	"id":         {name: "id", places: inRule, value: true},
	"phase":      {name: "phase", places: inRule, value: true},
	"msg":        {name: "msg", places: inRule, value: true},
	"severity":   {name: "severity", places: inRule | inUpdate, value: true},
	"rev":        {name: "rev", places: inRule, value: true},
	"ver":        {name: "ver", places: inRule, value: true},
	"tag":        {name: "tag", places: inRule, value: true, repeated: true},
	"logdata":    {name: "logdata", places: inRule | inLink, value: true},
	"t":          {name: "t", places: inRule | inLink, value: true, repeated: true},
	"setvar":     {name: "setvar", places: inRule | inLink, value: true, repeated: true},
	"ctl":        {name: "ctl", places: inRule | inLink, value: true, repeated: true},
	"status":     {name: "status", places: inRule | inUpdate, value: true},
	"skipafter":  {name: "skipAfter", places: inRule, value: true},
	"capture":    {name: "capture", places: inRule | inLink},
	"multimatch": {name: "multiMatch", places: inRule | inLink},
	"chain":      {name: "chain", places: inRule | inLink},
	"log":        {name: "log", places: inRule | inUpdate},
	"nolog":      {name: "nolog", places: inRule | inUpdate},
	"pass":       {name: "pass", places: inRule | inUpdate, disruptive: true},
	"deny":       {name: "deny", places: inRule | inUpdate, disruptive: true},
	// In the rule set's scoring, block means "continue". In a custom rule it can only be meant as deny.
	"block": {name: "deny", places: inRule | inUpdate, disruptive: true},
}
