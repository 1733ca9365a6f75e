package packages

import "regexp"

// credentials are those in the address of a repository.
var credentials = regexp.MustCompile(`(://)[^/\s@]+@`)

// Hide takes passwords of repositories out of what apt says.
func Hide(text string) string { return credentials.ReplaceAllString(text, "${1}…@") }
