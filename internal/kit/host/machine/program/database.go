package program

import "net/url"

// WithoutPassword moves the password of a database address to the environment of PostgreSQL's programs: every user of the machine can
// read command lines.
func WithoutPassword(address string) (without string, env []string) {
	u, err := url.Parse(address)
	if err != nil {
		return address, nil
	}
	password, set := u.User.Password()
	query := u.Query()
	if query.Has("password") {
		password, set = query.Get("password"), true
		query.Del("password")
		u.RawQuery = query.Encode()
	}
	if !set {
		return address, nil
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String(), []string{"PGPASSWORD=" + password}
}
