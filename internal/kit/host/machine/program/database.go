package program

import "net/url"

// WithoutPassword takes the password out of an address, which everyone on the machine can see in the list of processes: PostgreSQL's
// programs find it in their environment.
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
