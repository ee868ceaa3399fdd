package pool

// streak keeps the first error of a series with one key, so that a report of
// the series does not change with every retry (ports, incident ids).
type streak struct {
	key string
	err error
}

// add notes err and gives the error to show.
func (s *streak) add(key string, err error) error {
	if s.err == nil || s.key != key {
		s.key, s.err = key, err
	}
	return s.err
}

func (s *streak) clear() { *s = streak{} }
