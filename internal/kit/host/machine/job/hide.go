package job

import "regexp"

// credentials are those in an address: before its host, or as a parameter.
var credentials = regexp.MustCompile(`(://)[^/\s@]+@|([?&]password=)[^&\s]+`)

// Hide takes passwords of repositories and databases out of what programs say.
func Hide(text string) string { return credentials.ReplaceAllString(text, "${1}${2}…") }
